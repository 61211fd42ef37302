/* Steps of a chain of pendulums: the mass matrix is built and its system solved, by elimination
 * with pivoting, at each. */

#include <math.h>

#define LINKS 35
#define SWINGS 100

static void solve(double a[LINKS][LINKS], double x[LINKS])
{
    for (int k = 0; k < LINKS; k++) {
        int best = k;
        for (int i = k + 1; i < LINKS; i++)
            if (fabs(a[i][k]) > fabs(a[best][k]))
                best = i;
        if (best != k) {
            for (int j = k; j < LINKS; j++) {
                double kept = a[k][j];
                a[k][j] = a[best][j];
                a[best][j] = kept;
            }
            double kept = x[k];
            x[k] = x[best];
            x[best] = kept;
        }
        double scale = 1.0 / a[k][k];
        for (int i = k + 1; i < LINKS; i++) {
            double times = a[i][k] * scale;
            for (int j = k + 1; j < LINKS; j++)
                a[i][j] -= times * a[k][j];
            x[i] -= times * x[k];
        }
    }
    for (int i = LINKS - 1; i >= 0; i--) {
        double sum = x[i];
        for (int j = i + 1; j < LINKS; j++)
            sum -= a[i][j] * x[j];
        x[i] = sum / a[i][i];
    }
}

void swings(const double angles[LINKS], const double speeds[LINKS],
            const double masses[LINKS][LINKS], double at[LINKS])
{
    double moving[LINKS], matrix[LINKS][LINKS], push[LINKS];
    for (int i = 0; i < LINKS; i++) {
        at[i] = angles[i];
        moving[i] = speeds[i];
    }
    for (int step = 0; step < SWINGS; step++) {
        for (int i = 0; i < LINKS; i++) {
            push[i] = -9.81 * masses[i][i] * sin(at[i]);
            for (int j = 0; j < LINKS; j++) {
                matrix[i][j] = masses[i][j] * cos(at[i] - at[j]);
                push[i] -= masses[i][j] * sin(at[i] - at[j]) * moving[j] * moving[j];
            }
        }
        solve(matrix, push);
        for (int i = 0; i < LINKS; i++) {
            moving[i] += 0.001 * push[i];
            at[i] += 0.001 * moving[i];
        }
    }
}

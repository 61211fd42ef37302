/* A hundred thousand systems of N equations by elimination with pivoting. The gradient, of the
 * sum of squares of the solutions, uses the factors of its system a second time. */

#include <math.h>
#include <string.h>

#define SYSTEMS 100000

/* Factor the rows of a in place; order[k] is the row that was exchanged with row k. */
static inline void factor(double a[N][N], int order[N])
{
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k + 1; i < N; i++)
            if (fabs(a[i][k]) > fabs(a[best][k]))
                best = i;
        order[k] = best;
        if (best != k)
            for (int j = 0; j < N; j++) {
                double kept = a[k][j];
                a[k][j] = a[best][j];
                a[best][j] = kept;
            }
        double scale = 1.0 / a[k][k];
        for (int i = k + 1; i < N; i++) {
            double times = a[i][k] *= scale;
            for (int j = k + 1; j < N; j++)
                a[i][j] -= times * a[k][j];
        }
    }
}

static inline void exchange(double x[N], int i, int j)
{
    double kept = x[i];
    x[i] = x[j];
    x[j] = kept;
}

static inline void solve(double a[N][N], const int order[N], double x[N])
{
    for (int k = 0; k < N; k++)
        exchange(x, k, order[k]);
    for (int i = 1; i < N; i++)
        for (int j = 0; j < i; j++)
            x[i] -= a[i][j] * x[j];
    for (int i = N - 1; i >= 0; i--) {
        for (int j = i + 1; j < N; j++)
            x[i] -= a[i][j] * x[j];
        x[i] /= a[i][i];
    }
}

static inline void solve_transposed(double a[N][N], const int order[N], double x[N])
{
    for (int j = 0; j < N; j++) {
        x[j] /= a[j][j];
        for (int i = j + 1; i < N; i++)
            x[i] -= a[j][i] * x[j];
    }
    for (int j = N - 1; j > 0; j--)
        for (int i = 0; i < j; i++)
            x[i] -= a[j][i] * x[j];
    for (int k = N - 1; k >= 0; k--)
        exchange(x, k, order[k]);
}

void value(const double (*a)[N][N], const double (*b)[N], double (*x)[N])
{
#pragma omp parallel for
    for (int s = 0; s < SYSTEMS; s++) {
        double factors[N][N], solution[N];
        int order[N];
        memcpy(factors, a[s], sizeof factors);
        memcpy(solution, b[s], sizeof solution);
        factor(factors, order);
        solve(factors, order, solution);
        memcpy(x[s], solution, sizeof solution);
    }
}

void gradient(const double (*a)[N][N], const double (*b)[N], double (*d_a)[N][N],
              double (*d_b)[N])
{
#pragma omp parallel for
    for (int s = 0; s < SYSTEMS; s++) {
        double factors[N][N], x[N], d_x[N];
        int order[N];
        memcpy(factors, a[s], sizeof factors);
        memcpy(x, b[s], sizeof x);
        factor(factors, order);
        solve(factors, order, x);
        for (int i = 0; i < N; i++)
            d_x[i] = 2.0 * x[i];
        solve_transposed(factors, order, d_x);
        for (int i = 0; i < N; i++) {
            d_b[s][i] = d_x[i];
            for (int j = 0; j < N; j++)
                d_a[s][i][j] = -d_x[i] * x[j];
        }
    }
}

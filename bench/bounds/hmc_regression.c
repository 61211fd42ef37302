/* Leapfrog steps over intercept, slope and the logarithm of the noise of a linear regression:
 * three sums in one pass over the data, and no division in it. */

#include <math.h>

#define LEAPS 1000
#define DATA 200
static const double h = 0.001;

static inline void force(const double at[3], const double x[DATA], const double y[DATA],
                         double out[3])
{
    double a = at[0], b = at[1], precision = exp(-2.0 * at[2]);
    double sum = 0.0, by_x = 0.0, squares = 0.0;
#pragma omp simd reduction(+ : sum, by_x, squares)
    for (int i = 0; i < DATA; i++) {
        double away = y[i] - a - b * x[i];
        sum += away;
        by_x += away * x[i];
        squares += away * away;
    }
    out[0] = -precision * sum + a;
    out[1] = -precision * by_x + b;
    out[2] = -precision * squares + DATA + at[2];
}

void trajectory(const double first[3], const double momentum[3], const double x[DATA],
                const double y[DATA], double last[3])
{
    double at[3], moving[3], pull[3];
    for (int k = 0; k < 3; k++) {
        at[k] = first[k];
        moving[k] = momentum[k];
    }
    for (int step = 0; step < LEAPS; step++) {
        force(at, x, y, pull);
        for (int k = 0; k < 3; k++) {
            moving[k] -= h / 2 * pull[k];
            at[k] += h * moving[k];
        }
        force(at, x, y, pull);
        for (int k = 0; k < 3; k++)
            moving[k] -= h / 2 * pull[k];
    }
    for (int k = 0; k < 3; k++)
        last[k] = at[k];
}

/* Leapfrog steps over the weights of a network of one hidden layer: forward and backward in one
 * pass over the examples. */

#include <math.h>
#include <string.h>

#define LEAPS 1000
#define INPUTS 4
#define HIDDEN 16
#define EXAMPLES 64
#define WEIGHTS ((INPUTS + 2) * HIDDEN)
static const double h = 0.002;

static void force(const double at[WEIGHTS], const double x[EXAMPLES][INPUTS],
                  const double y[EXAMPLES], double out[WEIGHTS])
{
    const double *into = at, *bias = at + INPUTS * HIDDEN, *last = bias + HIDDEN;
    double *d_into = out, *d_bias = out + INPUTS * HIDDEN, *d_last = d_bias + HIDDEN;
    memcpy(out, at, WEIGHTS * sizeof *out);
    for (int e = 0; e < EXAMPLES; e++) {
        double hidden[HIDDEN], away = -y[e];
#pragma omp simd
        for (int k = 0; k < HIDDEN; k++) {
            double sum = bias[k];
            for (int i = 0; i < INPUTS; i++)
                sum += x[e][i] * into[i * HIDDEN + k];
            hidden[k] = sum;
        }
        for (int k = 0; k < HIDDEN; k++)
            hidden[k] = tanh(hidden[k]);
#pragma omp simd reduction(+ : away)
        for (int k = 0; k < HIDDEN; k++)
            away += hidden[k] * last[k];
#pragma omp simd
        for (int k = 0; k < HIDDEN; k++) {
            double slope = away * last[k] * (1.0 - hidden[k] * hidden[k]);
            d_last[k] += away * hidden[k];
            d_bias[k] += slope;
            for (int i = 0; i < INPUTS; i++)
                d_into[i * HIDDEN + k] += slope * x[e][i];
        }
    }
}

void trajectory(const double first[WEIGHTS], const double momentum[WEIGHTS],
                const double x[EXAMPLES][INPUTS], const double y[EXAMPLES], double last[WEIGHTS])
{
    double moving[WEIGHTS], pull[WEIGHTS];
    memcpy(last, first, sizeof pull);
    memcpy(moving, momentum, sizeof pull);
    for (int step = 0; step < LEAPS; step++) {
        force(last, x, y, pull);
        for (int k = 0; k < WEIGHTS; k++) {
            moving[k] -= h / 2 * pull[k];
            last[k] += h * moving[k];
        }
        force(last, x, y, pull);
        for (int k = 0; k < WEIGHTS; k++)
            moving[k] -= h / 2 * pull[k];
    }
}

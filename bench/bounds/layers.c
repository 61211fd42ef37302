/* Residual layers over a batch of rows: products in the order in which vectors run along rows. */

#include <math.h>
#include <string.h>

#define ROWS 64
#define WIDTH 256
#define LAYERS 8

static void multiply(const double *restrict a, const double *restrict b, double *restrict c)
{
    memset(c, 0, sizeof(double) * ROWS * WIDTH);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < WIDTH; k++)
            for (int j = 0; j < WIDTH; j++)
                c[i * WIDTH + j] += a[i * WIDTH + k] * b[k * WIDTH + j];
}

void value(const double *x, const double *weights, double *last)
{
    static double made[ROWS * WIDTH];
    memcpy(last, x, sizeof made);
    for (int layer = 0; layer < LAYERS; layer++) {
        multiply(last, weights + layer * WIDTH * WIDTH, made);
        for (int i = 0; i < ROWS * WIDTH; i++)
            last[i] += tanh(made[i]);
    }
}

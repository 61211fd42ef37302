/* x tanh(log(1 + e^x)) of ten million numbers, by the form that needs one exponential. */

#include <math.h>

#define ELEMENTS 10000000

void mish(const double x[ELEMENTS], double y[ELEMENTS])
{
#pragma omp parallel for
    for (int i = 0; i < ELEMENTS; i++) {
        double grown = exp(x[i] < 40.0 ? x[i] : 40.0), top = grown * (grown + 2.0);
        y[i] = x[i] * (top / (top + 2.0));
    }
}

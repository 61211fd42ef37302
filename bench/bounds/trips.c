/* A loop that asks at every trip whether to go on. */

#include <stdint.h>

void value(const double *x, const double *a, const int64_t *limit, double *result)
{
    double c = *x, k = *a;
    for (int64_t n = 0; n < *limit; n++)
        c = c * k + 0.25;
    *result = c;
}

/* A thousand small steps along a sine and an exponential, and their derivatives. */

#include <math.h>

#define TERMS 1000

void value(const double *x, const double *a, double *result)
{
    double c = *x;
    for (int n = 0; n < TERMS; n++)
        c += 0.01 * (*a * sin(c) + 0.5 * exp(-c * c));
    *result = c;
}

void gradient(const double *x, const double *a, double *d_x, double *d_a)
{
    double c = *x, k = *a;
    double sine[TERMS], slope[TERMS];
    for (int n = 0; n < TERMS; n++) {
        double bell = 0.5 * exp(-c * c);
        sine[n] = sin(c);
        slope[n] = 1.0 + 0.01 * (k * cos(c) - 2.0 * c * bell);
        c += 0.01 * (k * sine[n] + bell);
    }
    double d_c = 1.0, d_k = 0.0;
    for (int n = TERMS - 1; n >= 0; n--) {
        d_k += 0.01 * d_c * sine[n];
        d_c *= slope[n];
    }
    *d_x = d_c;
    *d_a = d_k;
}

void forward(const double *x, const double *a, double *derivative)
{
    double c = *x, k = *a, d_c = 1.0, d_k = 1.0;
    for (int n = 0; n < TERMS; n++) {
        double sine = sin(c), bell = 0.5 * exp(-c * c);
        d_c += 0.01 * (d_k * sine + d_c * (k * cos(c) - 2.0 * c * bell));
        c += 0.01 * (k * sine + bell);
    }
    *derivative = d_c;
}

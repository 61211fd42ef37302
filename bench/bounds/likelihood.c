/* Minus the logarithm of a mixture of a bell and a constant, over five hundred data whose means
 * differ; and its gradient by mean, width and share. */

#include <math.h>

#define TERMS 500

void value(const double params[3], const double data[TERMS], double *result)
{
    double mean = params[0], width = params[1], share = params[2], total = 0.0;
    for (int i = 0; i < TERMS; i++) {
        double away = (data[i] - mean * (1.0 + 0.001 * i)) / width;
        total -= log(share * exp(-0.5 * away * away) / width + 0.01);
    }
    *result = total;
}

void gradient(const double params[3], const double data[TERMS], double d_params[3])
{
    double mean = params[0], width = params[1], share = params[2];
    double d_mean = 0.0, d_width = 0.0, d_share = 0.0;
    for (int i = 0; i < TERMS; i++) {
        double scale = 1.0 + 0.001 * i;
        double away = (data[i] - mean * scale) / width;
        double bell = exp(-0.5 * away * away) / width;
        double d_bell = -share * bell / (share * bell + 0.01);
        d_share += d_bell / share;
        d_mean += d_bell * away * scale / width;
        d_width += d_bell * (away * away - 1.0) / width;
    }
    d_params[0] = d_mean;
    d_params[1] = d_width;
    d_params[2] = d_share;
}

/* A thousand small steps along a polynomial, each operation waiting for the one before. */

#define TERMS 1000
#define DEGREE 9

static const double coefficient[DEGREE] = {0.5, -0.25, 0.125, 0.3, -0.2, 0.1, -0.4, 0.2, -0.1};

void value(const double *x, const double *a, double *result)
{
    double c = *x;
    for (int n = 0; n < TERMS; n++) {
        double slope = *a;
        for (int i = 0; i < DEGREE; i++)
            slope = slope * c + coefficient[i];
        c += 0.001 * slope;
    }
    *result = c;
}

void gradient(const double *x, const double *a, double *d_x, double *d_a)
{
    double c = *x, seen[TERMS];
    for (int n = 0; n < TERMS; n++) {
        double slope = *a;
        seen[n] = c;
        for (int i = 0; i < DEGREE; i++)
            slope = slope * c + coefficient[i];
        c += 0.001 * slope;
    }
    double d_c = 1.0, sum_a = 0.0;
    for (int n = TERMS - 1; n >= 0; n--) {
        double partial[DEGREE], slope = *a;
        for (int i = 0; i < DEGREE; i++) {
            partial[i] = slope;
            slope = slope * seen[n] + coefficient[i];
        }
        double d_slope = 0.001 * d_c;
        for (int i = DEGREE - 1; i >= 0; i--) {
            d_c += d_slope * partial[i];
            d_slope *= seen[n];
        }
        sum_a += d_slope;
    }
    *d_x = d_c;
    *d_a = sum_a;
}

void forward(const double *x, const double *a, double *derivative)
{
    double c = *x, d_c = 1.0;
    for (int n = 0; n < TERMS; n++) {
        double slope = *a, d_slope = 1.0;
        for (int i = 0; i < DEGREE; i++) {
            d_slope = d_slope * c + slope * d_c;
            slope = slope * c + coefficient[i];
        }
        c += 0.001 * slope;
        d_c += 0.001 * d_slope;
    }
    *derivative = d_c;
}

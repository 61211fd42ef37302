/* Sums of the first elements of a row. */

#define ELEMENTS 10000000

void value(const double *restrict x, double *restrict sums)
{
    double total = 0.0;
    for (int i = 0; i < ELEMENTS; i++) {
        total += x[i];
        sums[i] = total;
    }
}

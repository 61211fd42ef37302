/* Squares of the differences of neighbors along three axes of a cube, and their gradient. */

#define N 128
#define AT(i, j, k) x[((i) * N + (j)) * N + (k)]

static double square(double a)
{
    return a * a;
}

void value(const double *restrict x, double *restrict total)
{
    double sum = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double row = 0.0;
            if (i + 1 < N)
                for (int k = 0; k < N; k++) row += square(AT(i + 1, j, k) - AT(i, j, k));
            if (j + 1 < N)
                for (int k = 0; k < N; k++) row += square(AT(i, j + 1, k) - AT(i, j, k));
            for (int k = 0; k + 1 < N; k++) row += square(AT(i, j, k + 1) - AT(i, j, k));
            sum += row;
        }
    *total = sum;
}

void gradient(const double *restrict x, double *restrict g)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const int above = i ? i - 1 : 0, below = i + 1 < N ? i + 1 : i;
            const int left = j ? j - 1 : 0, right = j + 1 < N ? j + 1 : j;
            double *restrict row = g + (i * N + j) * N;
            for (int k = 0; k < N; k++)
                row[k] = 2.0 * (4.0 * AT(i, j, k) - AT(above, j, k) - AT(below, j, k)
                                 - AT(i, left, k) - AT(i, right, k));
            for (int k = 1; k + 1 < N; k++)
                row[k] += 2.0 * (2.0 * AT(i, j, k) - AT(i, j, k - 1) - AT(i, j, k + 1));
            row[0] += 2.0 * (AT(i, j, 0) - AT(i, j, 1));
            row[N - 1] += 2.0 * (AT(i, j, N - 1) - AT(i, j, N - 2));
        }
}

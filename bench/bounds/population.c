/* Years of a population by age, whose births and deaths depend on its size. */

#define AGES 48
#define YEARS 10000

void years(const double first[AGES], const double births[AGES], const double survival[AGES - 1],
           const double *capacity, double last[AGES])
{
    double now[AGES], next[AGES], share = 1.0 / *capacity;
    for (int k = 0; k < AGES; k++)
        now[k] = first[k];
    for (int year = 0; year < YEARS; year++) {
        double size = 0.0, born = 0.0;
#pragma omp simd reduction(+ : size, born)
        for (int k = 0; k < AGES; k++) {
            size += now[k];
            born += births[k] * now[k];
        }
        double crowding = 1.0 / (1.0 + size * share);
        next[0] = born * crowding;
#pragma omp simd
        for (int k = 1; k < AGES; k++)
            next[k] = now[k - 1] * survival[k - 1] * crowding;
#pragma omp simd
        for (int k = 0; k < AGES; k++)
            now[k] = next[k];
    }
    for (int k = 0; k < AGES; k++)
        last[k] = now[k];
}

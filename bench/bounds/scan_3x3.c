/* Ten thousand steps of c = c * turn + push, all 3x3; the sum of squares of the last c. */

#include <string.h>

#define STEPS 10000

static void step(double next[3][3], const double c[3][3], const double turn[3][3],
                 const double push[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            next[i][j] = c[i][0] * turn[0][j] + c[i][1] * turn[1][j] + c[i][2] * turn[2][j]
                         + push[i][j];
}

void value(const double first[3][3], const double turn[3][3], const double push[3][3],
           double *loss)
{
    double c[3][3], next[3][3];
    memcpy(c, first, sizeof c);
    for (int n = 0; n < STEPS; n++) {
        step(next, c, turn, push);
        memcpy(c, next, sizeof c);
    }
    double total = 0.0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            total += c[i][j] * c[i][j];
    *loss = total;
}

void gradient(const double first[3][3], const double turn[3][3], const double push[3][3],
              double d_first[3][3], double d_turn[3][3], double d_push[3][3])
{
    static double c[STEPS + 1][3][3];
    memcpy(c[0], first, sizeof c[0]);
    for (int n = 0; n < STEPS; n++)
        step(c[n + 1], c[n], turn, push);

    double d_c[3][3], sum_turn[3][3] = {{0}}, sum_push[3][3] = {{0}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            d_c[i][j] = 2.0 * c[STEPS][i][j];
    for (int n = STEPS - 1; n >= 0; n--) {
        double before[3][3];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                sum_turn[i][j] += c[n][0][i] * d_c[0][j] + c[n][1][i] * d_c[1][j]
                                  + c[n][2][i] * d_c[2][j];
                sum_push[i][j] += d_c[i][j];
                before[i][j] = d_c[i][0] * turn[j][0] + d_c[i][1] * turn[j][1]
                               + d_c[i][2] * turn[j][2];
            }
        memcpy(d_c, before, sizeof d_c);
    }
    memcpy(d_first, d_c, sizeof d_c);
    memcpy(d_turn, sum_turn, sizeof sum_turn);
    memcpy(d_push, sum_push, sizeof sum_push);
}

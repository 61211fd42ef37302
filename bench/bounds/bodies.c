/* Leapfrog steps of bodies under softened gravity; the gradient keeps the positions at which
 * bodies were pulled. Coordinates are apart, so that vectors run over the bodies. */

#include <math.h>

#define BODIES 16
#define STEPS 1000
static const double h = 1e-3, softening = 0.05;

typedef struct { double x[BODIES], y[BODIES], z[BODIES]; } Points;

static void read(Points *points, const double (*rows)[3])
{
    for (int i = 0; i < BODIES; i++)
        points->x[i] = rows[i][0], points->y[i] = rows[i][1], points->z[i] = rows[i][2];
}

static void write(double (*rows)[3], const Points *points)
{
    for (int i = 0; i < BODIES; i++)
        rows[i][0] = points->x[i], rows[i][1] = points->y[i], rows[i][2] = points->z[i];
}

static void add(Points *to, double by, const Points *from)
{
    for (int i = 0; i < BODIES; i++) {
        to->x[i] += by * from->x[i];
        to->y[i] += by * from->y[i];
        to->z[i] += by * from->z[i];
    }
}

static void pull(Points *force, const Points *at, const double *mass)
{
    Points total = {{0}, {0}, {0}};
    for (int j = 0; j < BODIES; j++) {
#pragma omp simd
        for (int i = 0; i < BODIES; i++) {
            double x = at->x[j] - at->x[i], y = at->y[j] - at->y[i], z = at->z[j] - at->z[i];
            double squared = x * x + y * y + z * z + softening;
            double weight = mass[j] / (squared * sqrt(squared));
            total.x[i] += weight * x;
            total.y[i] += weight * y;
            total.z[i] += weight * z;
        }
    }
    *force = total;
}

/* The cotangent of the positions for the cotangent u of the force. */
static void pull_back(Points *result, const Points *at, const double *mass, const Points *u)
{
    Points total = {{0}, {0}, {0}};
    for (int j = 0; j < BODIES; j++) {
        double to_x = 0, to_y = 0, to_z = 0;
#pragma omp simd reduction(+ : to_x, to_y, to_z)
        for (int i = 0; i < BODIES; i++) {
            double x = at->x[j] - at->x[i], y = at->y[j] - at->y[i], z = at->z[j] - at->z[i];
            double squared = x * x + y * y + z * z + softening;
            double weight = mass[j] / (squared * sqrt(squared));
            double along = 3 * weight / squared * (u->x[i] * x + u->y[i] * y + u->z[i] * z);
            double g_x = weight * u->x[i] - along * x, g_y = weight * u->y[i] - along * y;
            double g_z = weight * u->z[i] - along * z;
            total.x[i] -= g_x, total.y[i] -= g_y, total.z[i] -= g_z;
            to_x += g_x, to_y += g_y, to_z += g_z;
        }
        total.x[j] += to_x, total.y[j] += to_y, total.z[j] += to_z;
    }
    *result = total;
}

void value(const double positions[BODIES][3], const double speeds[BODIES][3],
           const double mass[BODIES], double *loss)
{
    Points at, moving, force;
    read(&at, positions);
    read(&moving, speeds);
    for (int n = 0; n < STEPS; n++) {
        add(&at, h / 2, &moving);
        pull(&force, &at, mass);
        add(&moving, h, &force);
        add(&at, h / 2, &moving);
    }
    double total = 0.0;
    for (int i = 0; i < BODIES; i++)
        total += at.x[i] * at.x[i] + at.y[i] * at.y[i] + at.z[i] * at.z[i];
    *loss = total / (3 * BODIES);
}

void gradient(const double positions[BODIES][3], const double speeds[BODIES][3],
              const double mass[BODIES], double d_positions[BODIES][3],
              double d_speeds[BODIES][3])
{
    static Points seen[STEPS];
    Points at, moving, force, d_at = {{0}, {0}, {0}}, d_moving = {{0}, {0}, {0}};
    read(&at, positions);
    read(&moving, speeds);
    for (int n = 0; n < STEPS; n++) {
        add(&at, h / 2, &moving);
        seen[n] = at;
        pull(&force, &at, mass);
        add(&moving, h, &force);
        add(&at, h / 2, &moving);
    }
    add(&d_at, 2.0 / (3 * BODIES), &at);
    for (int n = STEPS - 1; n >= 0; n--) {
        add(&d_moving, h / 2, &d_at);
        pull_back(&force, &seen[n], mass, &d_moving);
        add(&d_at, h, &force);
        add(&d_moving, h / 2, &d_at);
    }
    write(d_positions, &d_at);
    write(d_speeds, &d_moving);
}

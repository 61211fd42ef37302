/* Runge-Kutta steps of the Lorenz system, a block of trajectories at a time; its gradient
 * keeps the states and computes the slopes of a step again. */

#define TRAJECTORIES 64
#define STEPS 1000
#define LANES 16
static const double h = 0.005;

typedef struct { double x[LANES], y[LANES], z[LANES]; } Block;
typedef struct { double sigma, rho, beta; } Params;
typedef struct { double x, y, z; } Point;

static inline Point slope(Point s, Params p)
{
    return (Point){p.sigma * (s.y - s.x), s.x * (p.rho - s.z) - s.y, s.x * s.y - p.beta * s.z};
}

static inline Point moved(Point s, double by, Point k)
{
    return (Point){s.x + by * k.x, s.y + by * k.y, s.z + by * k.z};
}

static inline Point weighted(Point a, Point b, Point c, Point d)
{
    return (Point){a.x + 2 * b.x + 2 * c.x + d.x, a.y + 2 * b.y + 2 * c.y + d.y,
                   a.z + 2 * b.z + 2 * c.z + d.z};
}

static inline Point step(Point s, Params p)
{
    Point k1 = slope(s, p), k2 = slope(moved(s, h / 2, k1), p);
    Point k3 = slope(moved(s, h / 2, k2), p), k4 = slope(moved(s, h, k3), p);
    return moved(s, h / 6, weighted(k1, k2, k3, k4));
}

static void read(Block *block, const double (*first)[3])
{
    for (int i = 0; i < LANES; i++) {
        block->x[i] = first[i][0];
        block->y[i] = first[i][1];
        block->z[i] = first[i][2];
    }
}

static void advance(Block *next, const Block *now, Params p)
{
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        Point s = step((Point){now->x[i], now->y[i], now->z[i]}, p);
        next->x[i] = s.x;
        next->y[i] = s.y;
        next->z[i] = s.z;
    }
}

void value(const double first[TRAJECTORIES][3], const double params[3], double *loss)
{
    Params p = {params[0], params[1], params[2]};
    double total = 0.0;
#pragma omp parallel for reduction(+ : total)
    for (int start = 0; start < TRAJECTORIES; start += LANES) {
        Block state;
        read(&state, first + start);
        for (int n = 0; n < STEPS; n++)
            advance(&state, &state, p);
        for (int i = 0; i < LANES; i++)
            total += state.x[i] * state.x[i] + state.y[i] * state.y[i] + state.z[i] * state.z[i];
    }
    *loss = total / (3 * TRAJECTORIES);
}

/* The cotangent of s for the cotangent g of slope(s, p); adds to that of p. */
static inline Point pulled(Point s, Params p, Point g, Params *d)
{
    d->sigma += g.x * (s.y - s.x);
    d->rho += g.y * s.x;
    d->beta -= g.z * s.z;
    return (Point){g.y * (p.rho - s.z) - p.sigma * g.x + g.z * s.y,
                   p.sigma * g.x - g.y + g.z * s.x, -g.y * s.x - p.beta * g.z};
}

static inline Point scaled(double by, Point g) { return (Point){by * g.x, by * g.y, by * g.z}; }

static inline Point step_back(Point s, Params p, Point g, Params *d)
{
    Point k1 = slope(s, p), s2 = moved(s, h / 2, k1), k2 = slope(s2, p);
    Point s3 = moved(s, h / 2, k2), k3 = slope(s3, p), s4 = moved(s, h, k3);
    Point g4 = pulled(s4, p, scaled(h / 6, g), d);
    Point g3 = pulled(s3, p, moved(scaled(h / 3, g), h, g4), d);
    Point g2 = pulled(s2, p, moved(scaled(h / 3, g), h / 2, g3), d);
    Point g1 = pulled(s, p, moved(scaled(h / 6, g), h / 2, g2), d);
    return (Point){g.x + g1.x + g2.x + g3.x + g4.x, g.y + g1.y + g2.y + g3.y + g4.y,
                   g.z + g1.z + g2.z + g3.z + g4.z};
}

void gradient(const double first[TRAJECTORIES][3], const double params[3],
              double d_first[TRAJECTORIES][3], double d_params[3])
{
    Params p = {params[0], params[1], params[2]};
    double sigma = 0, rho = 0, beta = 0;
    static Block seen[TRAJECTORIES / LANES][STEPS + 1];
#pragma omp parallel for reduction(+ : sigma, rho, beta)
    for (int start = 0; start < TRAJECTORIES; start += LANES) {
        Block *state = seen[start / LANES], g, d = {{0}, {0}, {0}};
        read(state, first + start);
        for (int n = 0; n < STEPS; n++)
            advance(&state[n + 1], &state[n], p);
        for (int i = 0; i < LANES; i++) {
            g.x[i] = 2 * state[STEPS].x[i] / (3 * TRAJECTORIES);
            g.y[i] = 2 * state[STEPS].y[i] / (3 * TRAJECTORIES);
            g.z[i] = 2 * state[STEPS].z[i] / (3 * TRAJECTORIES);
        }
        for (int n = STEPS - 1; n >= 0; n--) {
            const Block *s = &state[n];
#pragma omp simd
            for (int i = 0; i < LANES; i++) {
                Params share = {d.x[i], d.y[i], d.z[i]};
                Point back = step_back((Point){s->x[i], s->y[i], s->z[i]}, p,
                                       (Point){g.x[i], g.y[i], g.z[i]}, &share);
                g.x[i] = back.x, g.y[i] = back.y, g.z[i] = back.z;
                d.x[i] = share.sigma, d.y[i] = share.rho, d.z[i] = share.beta;
            }
        }
        for (int i = 0; i < LANES; i++) {
            d_first[start + i][0] = g.x[i];
            d_first[start + i][1] = g.y[i];
            d_first[start + i][2] = g.z[i];
            sigma += d.x[i], rho += d.y[i], beta += d.z[i];
        }
    }
    d_params[0] = sigma, d_params[1] = rho, d_params[2] = beta;
}

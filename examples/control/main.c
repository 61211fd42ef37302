// main.c: a simulated cart and pole, and the controller that swings the pole up.

#include "first_plan.h"
#include "swing_up.h"

#ifdef __arm__
#include "measure.h"
#else
#include "start.h"
#endif

enum { STEPS = 200, SUBSTEPS = 50 };

static int64_t arena[(SWING_UP_ARENA_BYTES + 7) / 8];

struct cart {
  float position, speed, angle, rate;
};

// Sine by Bhaskara's formula of the nearest half turn, to 0.002: the plant needs no library.
static float sine(float angle) {
  const float pi = 3.14159265f;
  int turns = (int)(angle / pi + (angle < 0 ? -0.5f : 0.5f));
  float rest = angle - (float)turns * pi, size = rest < 0 ? -rest : rest;
  float product = size * (pi - size);
  float value = 16 * product / (5 * pi * pi - 4 * product);
  return ((turns % 2 == 0) == (rest >= 0)) ? value : -value;
}

static float cosine(float angle) { return sine(angle + 1.57079633f); }

// A millisecond with friction and a heavier pole, of which the controller has no model.
static void move(struct cart *cart, float force) {
  const float pole = 0.11f, mass = 1.11f, length = 0.5f, step = 0.001f;
  const float s = sine(cart->angle), c = cosine(cart->angle);
  const float push = (force - 0.1f * cart->speed + pole * length * cart->rate * cart->rate * s) / mass;
  const float turn = (9.81f * s - c * push - 0.02f * cart->rate)
                     / (length * (4.0f / 3.0f - pole / mass * c * c));
  cart->speed += step * (push - pole * length / mass * turn * c);
  cart->rate += step * turn;
  cart->position += step * cart->speed;
  cart->angle += step * cart->rate;
}

// Uniform noise between -1 and 1.
static float noise(void) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(int32_t)state * (1.0f / 2147483648.0f);
}

// Prints a number in units of 1e-4, above 1e9: without sign or point.
static void print_value(const char *what, float value) {
  print_number(what, (uint32_t)(1000000000 + (int32_t)(value * 1e4f)), "\n");
}

enum { HORIZON = sizeof first_inputs / sizeof *first_inputs };

// What the controller keeps; two of them take turns.
struct memory {
  float mean[4], covariance[16], states[4 * HORIZON], inputs[HORIZON], gains[4 * HORIZON];
};

static void reset(struct memory *memory) {
  memory->mean[2] = 3.14159265f;
  for (int i = 0; i < 4; ++i) {
    memory->covariance[5 * i] = 0.01f;
  }
  for (int i = 0; i < 4 * HORIZON; ++i) {
    memory->states[i] = first_states[i];
    memory->gains[i] = first_gains[i];
  }
  for (int i = 0; i < HORIZON; ++i) {
    memory->inputs[i] = first_inputs[i];
  }
}

int main(void) {
  static struct memory memories[2];
  struct cart cart = {0, 0, 3.14159265f, 0};
  if (swing_up_init(arena, sizeof arena) != 0 || swing_up_setup(arena) != 0) {
    return 1;
  }
  reset(&memories[0]);
  for (int step = 0; step < STEPS; ++step) {
    const struct memory *old = &memories[step % 2];
    struct memory *new = &memories[(step + 1) % 2];
    const float measured[2] = {cart.position + 0.01f * noise(), cart.angle + 0.01f * noise()};
    float force;
#ifdef __arm__
    const struct start begun = start_measuring();
#endif
    const int status = swing_up_call(arena, old->mean, old->covariance, old->states, old->inputs,
                                     old->gains, measured, new->mean, new->covariance,
                                     new->states, new->inputs, new->gains, &force);
#ifdef __arm__
    print_measured(begun, 1);
#endif
    if (status != 0) {
      return 1;
    }
    print_value("position ", cart.position);
    print_value("angle ", cart.angle);
    print_value("force ", force);
    for (int i = 0; i < SUBSTEPS; ++i) {
      move(&cart, force);
    }
  }
  return 0;
}

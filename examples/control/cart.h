// cart.h: a simulated cart and pole with noisy sensors, and what is printed of it.
#ifndef CART_H
#define CART_H

#ifdef __arm__
#include "measure.h"
#else
#include "start.h"
#endif

enum { STEPS = 200, SUBSTEPS = 50 };

struct cart {
  float position, speed, angle, rate;
};

// Sine by Bhaskara's formula of the nearest half turn, to 0.002: the plant needs no library.
static inline float sine(float angle) {
  const float pi = 3.14159265f;
  int turns = (int)(angle / pi + (angle < 0 ? -0.5f : 0.5f));
  float rest = angle - (float)turns * pi, size = rest < 0 ? -rest : rest;
  float product = size * (pi - size);
  float value = 16 * product / (5 * pi * pi - 4 * product);
  return ((turns % 2 == 0) == (rest >= 0)) ? value : -value;
}

static inline float cosine(float angle) { return sine(angle + 1.57079633f); }

// A millisecond with friction and a heavier pole, of which the controller has no model.
static inline void move(struct cart *cart, float force) {
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
static inline float noise(void) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(int32_t)state * (1.0f / 2147483648.0f);
}

// Prints a number in units of 1e-4, above 1e9: without sign or point.
static inline void print_value(const char *what, float value) {
  print_number(what, (uint32_t)(1000000000 + (int32_t)(value * 1e4f)), "\n");
}

// Measures position and angle, each to a centimetre or a hundredth.
static inline void measure(const struct cart *cart, float measured[2]) {
  measured[0] = cart->position + 0.01f * noise();
  measured[1] = cart->angle + 0.01f * noise();
}

// Prints where the cart is, and moves it by a force until the next measurement.
static inline void drive(struct cart *cart, float force) {
  print_value("position ", cart->position);
  print_value("angle ", cart->angle);
  print_value("force ", force);
  for (int i = 0; i < SUBSTEPS; ++i) {
    move(cart, force);
  }
}

#endif

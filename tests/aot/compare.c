// Compares the functions of freestanding.c with libm's, bit for bit, over random bit patterns.

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "freestanding.c"

static uint64_t random_bits(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// Any float, or one of moderate size.
static float random_float(int moderate) {
  const uint32_t bits = (uint32_t)(random_bits() >> 16);
  float x;
  memcpy(&x, &bits, sizeof x);
  return moderate ? (float)(int32_t)bits / (float)(1u << (random_bits() % 31)) : x;
}

static double random_double(int moderate) {
  const uint64_t bits = random_bits();
  double x;
  memcpy(&x, &bits, sizeof x);
  return moderate ? (double)random_float(1) * 0.75 : x;
}

static long differ(float a, float b) {
  return !(memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)));
}

static long differ_double(double a, double b) {
  return !(memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)));
}

int main(void) {
  long count = 0;
  for (int i = 0; i < 300000; ++i) {
    const float a = random_float(i & 1), b = random_float(i & 1);
    const float c = i % 5 == 0 ? -a * b : random_float(i & 2);
    const double d = random_double(i & 1);
    count += differ(own_fmaf(a, b, c), fmaf(a, b, c));
    count += differ(own_sqrtf(a), sqrtf(a)) + differ_double(own_sqrt(d), sqrt(d));
    count += differ(own_floorf(a), floorf(a)) + differ_double(own_floor(d), floor(d));
    count += differ(own_ceilf(a), ceilf(a)) + differ_double(own_ceil(d), ceil(d));
    count += differ(own_truncf(a), truncf(a)) + differ_double(own_trunc(d), trunc(d));
    count += differ(own_rintf(a), rintf(a)) + differ_double(own_rint(d), rint(d));
    count += differ(own_fabsf(a), fabsf(a)) + differ_double(own_fabs(d), fabs(d));
  }
  printf("%ld differences\n", count);
  return 0;
}

/* How many multiply-adds this machine does in a second: of bytes, pairs of bf16, and floats.

   cc -O2 -march=native bench/peak.c -o peak && ./peak

   For x86 with AVX-512 VNNI and bf16. Sixteen sums in registers, nothing read: no program is faster. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define BYTES(r) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #r "\n"
#define PAIRS(r) "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #r "\n"
#define FLOATS(r) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #r "\n"
enum { ROUNDS = 100000, TIMES = 300 };

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

#define MEASURE(name, code, products)                                                \
  do {                                                                               \
    double least = 1e9;                                                              \
    for (int time = 0; time < TIMES; ++time) {                                       \
      const double started = now();                                                  \
      for (long i = 0; i < ROUNDS; ++i) __asm__ volatile(ALL(code) : : : "memory");  \
      const double took = now() - started;                                           \
      least = took < least ? took : least;                                           \
    }                                                                                \
    printf("%s: %.0f GMAC/s\n", name, ROUNDS * 16.0 * (products) / least / 1e9);     \
  } while (0)

int main(void) {
  MEASURE("bytes", BYTES, 64);
  MEASURE("pairs of bf16", PAIRS, 32);
  MEASURE("floats", FLOATS, 16);
  return 0;
}

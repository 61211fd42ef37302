// measure.c: runs the network a number of times, by rlx or by hand; without a number, times both.

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "classify.h"

enum { ROUNDS = 200, RUNS = 500 };

void by_hand(const float *x, float *y);

static int64_t memory[(CLASSIFY_ARENA_BYTES + 128) / 8];
static const float x[16] = {0.25f, -0.5f, 1.0f, 0.75f};
static float y[4];

static void run(void *arena, int which, int times) {
  for (int i = 0; i < times; ++i) {
    if (which) {
      classify_call(arena, x, y);
    } else {
      by_hand(x, y);
    }
    __asm__ volatile("" ::: "memory");
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  void *const arena = (char *)memory + (64 - (uintptr_t)memory % 64) % 64;
  if (classify_init(arena, CLASSIFY_ARENA_BYTES) != 0 || classify_setup(arena) != 0) {
    return 1;
  }
  if (argc > 2) {
    run(arena, atoi(argv[1]), atoi(argv[2]));
    return 0;
  }
  double least[2] = {1e30, 1e30};
  for (int round = 0; round < ROUNDS; ++round) {
    for (int which = 0; which < 2; ++which) {
      const double start = now();
      run(arena, which, RUNS);
      const double taken = (now() - start) / RUNS;
      least[which] = taken < least[which] ? taken : least[which];
    }
  }
  printf("%.0f %.0f\n", least[1], least[0]);
  return 0;
}

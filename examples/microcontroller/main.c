// main.c: runs a network on a Cortex-M and prints what it costs.

#include "classify.h"
#include "measure.h"

enum { RUNS = 100 };

static int64_t arena[(CLASSIFY_ARENA_BYTES + 7) / 8];

int main(void) {
  static const float x[CLASSIFY_X_BYTES / sizeof(float)] = {0.25f, -0.5f, 1.0f, 0.75f};
  float y[CLASSIFY_Y_BYTES / sizeof(float)];
  if (classify_init(arena, sizeof arena) != 0 || classify_setup(arena) != 0) {
    return 1;
  }
  const struct start start = start_measuring();
  for (int i = 0; i < RUNS; ++i) {
    if (classify_call(arena, x, y) != 0) {
      return 1;
    }
  }
  print_measured(start, RUNS);
  print_number("arena ", CLASSIFY_ARENA_BYTES, "\n");
  for (unsigned i = 0; i < sizeof y / sizeof *y; ++i) {
    print_number("y ", (uint32_t)(int32_t)(y[i] * 1e6f + 2e9f), "\n"); // 2e9 above: no signs
  }
  return 0;
}

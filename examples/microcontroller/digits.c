// digits.c: reads digits in eight bits on a Cortex-M, and prints what that costs.

#include "digits.h"
#include "images.h"
#include "measure.h"

static int64_t arena[(DIGITS_ARENA_BYTES + 7) / 8];

int main(void) {
  static float y[IMAGES][DIGITS_Y_BYTES / sizeof(float)];
  if (digits_init(arena, sizeof arena) != 0 || digits_setup(arena) != 0) {
    return 1;
  }
  const struct start start = start_measuring();
  for (int i = 0; i < IMAGES; ++i) {
    if (digits_call(arena, images[i], y[i]) != 0) {
      return 1;
    }
  }
  print_measured(start, IMAGES);
  print_number("arena ", DIGITS_ARENA_BYTES, "\n");
  const uint32_t *const bits = (const uint32_t *)y;
  for (unsigned i = 0; i < sizeof y / sizeof *bits; ++i) {
    print_number("y ", bits[i], "\n");
  }
  return 0;
}

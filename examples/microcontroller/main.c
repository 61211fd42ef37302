// main.c: runs a network on a Cortex-M and prints what it costs.

#include "classify.h"
#include "start.h"

enum { RUNS = 100, TICK_INSTRUCTIONS = 40, PAINT = 0x5a5a5a5a };

extern uint32_t stack_bottom[];

static int64_t arena[(CLASSIFY_ARENA_BYTES + 7) / 8];

// SysTick counts down at 25 MHz; QEMU with `-icount shift=0` takes a nanosecond per instruction.
static volatile uint32_t *const systick = (volatile uint32_t *)0xe000e010;

static uint32_t ticks(void) { return 0xffffff - systick[2]; }

static uint32_t *here(void) {
  uint32_t *top;
  __asm__ volatile("mov %0, sp" : "=r"(top));
  return top;
}

int main(void) {
  static const float x[CLASSIFY_X_BYTES / sizeof(float)] = {0.25f, -0.5f, 1.0f, 0.75f};
  float y[CLASSIFY_Y_BYTES / sizeof(float)];
  if (classify_init(arena, sizeof arena) != 0 || classify_setup(arena) != 0) {
    return 1;
  }
  uint32_t *const top = here();
  for (uint32_t *p = stack_bottom; p < top - 8; ++p) {
    *p = PAINT;
  }
  systick[1] = 0xffffff;
  systick[2] = 0;
  systick[0] = 5;
  const uint32_t before = ticks();
  for (int i = 0; i < RUNS; ++i) {
    if (classify_call(arena, x, y) != 0) {
      return 1;
    }
  }
  const uint32_t taken = (ticks() - before) & 0xffffff;
  const uint32_t *used = stack_bottom;
  while (*used == PAINT) {
    ++used;
  }
  print_number("instructions ", taken * TICK_INSTRUCTIONS / RUNS, "\n");
  print_number("stack ", (uint32_t)((const char *)top - (const char *)used), "\n");
  print_number("arena ", CLASSIFY_ARENA_BYTES, "\n");
  for (unsigned i = 0; i < sizeof y / sizeof *y; ++i) {
    print_number("y ", (uint32_t)(int32_t)(y[i] * 1e6f + 2e9f), "\n"); // 2e9 above: no signs
  }
  return 0;
}

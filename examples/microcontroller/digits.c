// digits.c: reads digits in eight bits on a Cortex-M, and prints what that costs.

#include "digits.h"
#include "images.h"
#include "start.h"

enum { TICK_INSTRUCTIONS = 40, PAINT = 0x5a5a5a5a };

extern uint32_t stack_bottom[];

static int64_t arena[(DIGITS_ARENA_BYTES + 7) / 8];

// SysTick counts down at 25 MHz; QEMU with `-icount shift=0` takes a nanosecond per instruction.
static volatile uint32_t *const systick = (volatile uint32_t *)0xe000e010;

static uint32_t ticks(void) { return 0xffffff - systick[2]; }

static uint32_t *here(void) {
  uint32_t *top;
  __asm__ volatile("mov %0, sp" : "=r"(top));
  return top;
}

int main(void) {
  static float y[IMAGES][DIGITS_Y_BYTES / sizeof(float)];
  if (digits_init(arena, sizeof arena) != 0 || digits_setup(arena) != 0) {
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
  for (int i = 0; i < IMAGES; ++i) {
    if (digits_call(arena, images[i], y[i]) != 0) {
      return 1;
    }
  }
  const uint32_t taken = (ticks() - before) & 0xffffff;
  const uint32_t *used = stack_bottom;
  while (*used == PAINT) {
    ++used;
  }
  print_number("instructions ", taken * TICK_INSTRUCTIONS / IMAGES, "\n");
  print_number("stack ", (uint32_t)((const char *)top - (const char *)used), "\n");
  print_number("ram ", DIGITS_ARENA_BYTES, "\n");
  const uint32_t *const bits = (const uint32_t *)y;
  for (unsigned i = 0; i < sizeof y / sizeof *bits; ++i) {
    print_number("y ", bits[i], "\n");
  }
  return 0;
}

// measure.h: the instructions and the stack of a stretch of code, in QEMU with `-icount shift=0`.
#ifndef MEASURE_H
#define MEASURE_H

#include "start.h"

enum { TICK_INSTRUCTIONS = 40, PAINT = 0x5a5a5a5a };

extern uint32_t stack_bottom[];

// SysTick counts down at 25 MHz; an instruction takes a nanosecond.
static volatile uint32_t *const systick = (volatile uint32_t *)0xe000e010;

struct start {
  uint32_t *top;
  uint32_t ticks;
};

static inline uint32_t ticks(void) { return 0xffffff - systick[2]; }

// Paints the stack that is free, and starts the clock; inlined, so that `top` is the caller's.
__attribute__((always_inline)) static inline struct start start_measuring(void) {
  uint32_t *top;
  __asm__ volatile("mov %0, sp" : "=r"(top));
  for (uint32_t *p = stack_bottom; p < top - 8; ++p) {
    *p = PAINT;
  }
  systick[1] = 0xffffff;
  systick[2] = 0;
  systick[0] = 5;
  return (struct start){top, ticks()};
}

// Prints the instructions of one of `runs` since `start`, and the bytes of stack that they took.
static inline void print_measured(struct start start, uint32_t runs) {
  const uint32_t taken = (ticks() - start.ticks) & 0xffffff;
  const uint32_t *used = stack_bottom;
  while (*used == PAINT) {
    ++used;
  }
  print_number("instructions ", taken * TICK_INSTRUCTIONS / runs, "\n");
  print_number("stack ", (uint32_t)((const char *)start.top - (const char *)used), "\n");
}

#endif

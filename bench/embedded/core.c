// core.c: counts the instructions and the stack of a run on a Cortex-M in QEMU.

#include "start.h"

enum { RUNS = 10, TICK_INSTRUCTIONS = 40, PAINT = 0x5a5a5a5a };

extern uint32_t stack_bottom[];

#ifdef GET_INFO
#include "fill.h"

static int64_t arena[(ARENA_BYTES + 7) / 8];

static int prepare(void) {
  const struct rlx_info *const info = GET_INFO();
  const int status = info->init(arena, sizeof arena);
  fill(info, (unsigned char *)arena);
  return status != 0 ? status : info->setup(arena);
}

static int once(void) { return GET_INFO()->run(arena, NULL); }
#else
void fill_inputs(void);
void run_once(void);

static int prepare(void) {
  fill_inputs();
  return 0;
}

static int once(void) {
  run_once();
  return 0;
}
#endif

// SysTick counts down at 25 MHz; QEMU with `-icount shift=0` takes a nanosecond per instruction.
static volatile uint32_t *const systick = (volatile uint32_t *)0xe000e010;

static uint32_t ticks(void) { return 0xffffff - systick[2]; }

int main(void) {
  if (prepare() != 0) {
    return 1;
  }
  uint32_t *top;
  __asm__ volatile("mov %0, sp" : "=r"(top));
  for (uint32_t *p = stack_bottom; p < top - 8; ++p) {
    *p = PAINT;
  }
  systick[1] = 0xffffff;
  systick[2] = 0;
  systick[0] = 5;
  const uint32_t before = ticks();
  for (int i = 0; i < RUNS; ++i) {
    if (once() != 0) {
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
  return 0;
}

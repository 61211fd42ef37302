// core.c: counts the instructions and the stack of a run on a Cortex-M in QEMU.

#include "measure.h"

enum { RUNS = 10 };

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

int main(void) {
  if (prepare() != 0) {
    return 1;
  }
  const struct start start = start_measuring();
  for (int i = 0; i < RUNS; ++i) {
    if (once() != 0) {
      return 1;
    }
  }
  print_measured(start, RUNS);
  return 0;
}

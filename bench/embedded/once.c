// once.c: any artifact as the peers' programs are: inputs that are filled once, and a run.

#include <stdio.h>
#include <stdlib.h>

#include "fill.h"

static unsigned char *arena;

void fill_inputs(void) {
  const struct rlx_info *const info = GET_INFO();
  arena = aligned_alloc(64, (info->arena_bytes + 63) / 64 * 64);
  if (arena == NULL || info->init(arena, info->arena_bytes) != 0) {
    exit(1);
  }
  fill(info, arena);
  if (info->setup(arena) != 0) {
    exit(1);
  }
}

void run_once(void) {
  if (GET_INFO()->run(arena, NULL) != 0) {
    exit(1);
  }
}

// any.c: runs any artifact a number of times; -DGET_INFO names the function that describes it.

#include <stdio.h>
#include <stdlib.h>

#include "fill.h"

int main(int argc, char **argv) {
  const struct rlx_info *const info = GET_INFO();
  unsigned char *const arena = aligned_alloc(64, (info->arena_bytes + 63) / 64 * 64);
  if (argc < 2 || arena == NULL || info->init(arena, info->arena_bytes) != 0) {
    return 1;
  }
  fill(info, arena);
  int status = info->setup(arena);
  for (int runs = atoi(argv[1]); status == 0 && runs > 0; --runs) {
    status = info->run(arena, NULL);
  }
  return status;
}

// any.c: runs any artifact a number of times; -DGET_INFO names the function that describes it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rlx_info.h"

const struct rlx_info *GET_INFO(void);

static void fill(const struct rlx_info *info, unsigned char *arena) {
  for (uint32_t i = 0; i < info->tensor_count; ++i) {
    const struct rlx_tensor *const t = &info->tensors[i];
    for (int64_t at = 0; t->place == RLX_IN_ARENA && strcmp(t->dtype, "f32") == 0 && at < t->elements;
         ++at) {
      const float value = (float)(at % 7) / 7 + (at % 4 == 0 ? 2 : 0); // matrices of 3x3: regular
      memcpy(arena + t->offset + 4 * at, &value, sizeof value);
    }
  }
}

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

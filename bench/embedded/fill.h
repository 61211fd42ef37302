// fill.h: numbers for the inputs of any artifact.
#ifndef FILL_H
#define FILL_H

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

#endif

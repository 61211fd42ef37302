// Runs one of several exported programs: stdin has the inputs, stdout gets the arena.
//
// stdin: the number of inputs, then for each its offset, its size and its bytes.
// Arguments: the program's number, then the extent of each symbol.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rlx_info.h"

#include "programs.h"

enum { MOST_SYMBOLS = 8 };

static void read_exactly(void *to, size_t size) {
  if (size != 0 && fread(to, 1, size, stdin) != size) {
    exit(2);
  }
}

static void check(const struct rlx_info *info, int status, const void *arena) {
  if (status != 0) {
    fprintf(stderr, "%s: %s\n", info->status_string(status), info->fault_string(arena));
    exit(3);
  }
}

int main(int count, char **arguments) {
  const size_t number = count > 1 ? (size_t)strtoull(arguments[1], NULL, 10) : 0;
  const struct rlx_info *info = programs[number]();
  const size_t size = (size_t)info->arena_bytes;
  const size_t alignment = (size_t)info->arena_alignment;
  // The arena ends where the block does, so that what is written after it is seen.
  const size_t padded = (size + alignment - 1) / alignment * alignment;
  unsigned char *arena = aligned_alloc(alignment, padded == 0 ? alignment : padded);
  if (arena == NULL) {
    return 4;
  }
  memset(arena, 0xCD, size);
  check(info, info->init(arena, size), arena);
  uint64_t inputs = 0;
  read_exactly(&inputs, sizeof inputs);
  for (uint64_t i = 0; i < inputs; ++i) {
    uint64_t place[2];
    read_exactly(place, sizeof place);
    read_exactly(arena + place[0], (size_t)place[1]);
  }
  check(info, info->setup(arena), arena);
  int64_t extents[MOST_SYMBOLS] = {0};
  for (int i = 2; i < count && i - 2 < MOST_SYMBOLS; ++i) {
    extents[i - 2] = strtoll(arguments[i], NULL, 10);
  }
  check(info, info->run(arena, extents), arena);
  fwrite(arena, 1, size, stdout);
  free(arena);
  return 0;
}

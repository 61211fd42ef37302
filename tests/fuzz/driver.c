// Runs an exported program: stdin has the inputs as they lie in the arena, stdout gets the arena.
//
// stdin: the number of inputs, then for each its offset, its size and its bytes.
// Arguments: the bytes of the arena, then the extent of each symbol.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "rlx_info.h"

enum { MOST_SYMBOLS = 8 };

static void read_exactly(void *to, size_t size) {
  if (size != 0 && fread(to, 1, size, stdin) != size) {
    exit(2);
  }
}

static void check(int status, const void *arena) {
  if (status != 0) {
    fprintf(stderr, "%s: %s\n", fuzz_status_string(status), fuzz_fault_string(arena));
    exit(3);
  }
}

int main(int count, char **arguments) {
  const size_t size = count > 1 ? (size_t)strtoull(arguments[1], NULL, 10) : 0;
  unsigned char *block = malloc(size + 64);
  if (block == NULL) {
    return 4;
  }
  unsigned char *arena = block + (64 - (uintptr_t)block % 64) % 64;
  memset(arena, 0xCD, size);
  check(fuzz_init(arena, size), arena);
  check(fuzz_setup(arena), arena);
  uint64_t inputs = 0;
  read_exactly(&inputs, sizeof inputs);
  for (uint64_t i = 0; i < inputs; ++i) {
    uint64_t place[2];
    read_exactly(place, sizeof place);
    read_exactly(arena + place[0], (size_t)place[1]);
  }
  int64_t extents[MOST_SYMBOLS] = {0};
  for (int i = 2; i < count && i - 2 < MOST_SYMBOLS; ++i) {
    extents[i - 2] = strtoll(arguments[i], NULL, 10);
  }
  check(fuzz_get_info()->run(arena, extents), arena);
  fwrite(arena, 1, size, stdout);
  free(block);
  return 0;
}

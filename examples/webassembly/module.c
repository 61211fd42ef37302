// The network as a WebAssembly module: its memory holds the arena, its exports are all of C's.

#include "classify.h"

static _Alignas(CLASSIFY_ARENA_ALIGNMENT) unsigned char arena[CLASSIFY_ARENA_BYTES];

int start(void) {
  const int status = classify_init(arena, sizeof arena);
  return status == CLASSIFY_OK ? classify_setup(arena) : status;
}

// Where the caller writes the inputs, and finds the outputs after a run.
float *input(void) {
  return classify_arena_x(arena);
}

float *output(void) {
  return classify_arena_y(arena);
}

int run(void) {
  return classify_run(arena);
}

// memcheck.c: runs the sample program of any artifact, and once more in a block of exactly the
// arena's size, for valgrind to watch. -DSAMPLE is the file of the sample, -DGET_INFO the function
// that describes the artifact.

#define main sample_main
#include SAMPLE
#undef main

#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

// The weights from the file, in a block of exactly their size; NULL if there are none.
static unsigned char *read_weights(const struct rlx_info *info, int argc, char **argv) {
  if (info->weights_bytes == 0) {
    return NULL;
  }
  unsigned char *const block = aligned_alloc(info->arena_alignment, info->weights_bytes);
  FILE *const file = argc > 1 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL || fread(block, 1, info->weights_bytes, file) != info->weights_bytes) {
    exit(2);
  }
  fclose(file);
  return block;
}

// Give the inputs and params of one arena to another, and nothing else of it.
static void copy_inputs(const struct rlx_info *info, unsigned char *to, const unsigned char *from) {
  for (uint32_t i = 0; i < info->tensor_count; ++i) {
    const struct rlx_tensor *const t = &info->tensors[i];
    if (t->role != RLX_OUTPUT && t->place == RLX_IN_ARENA) {
      memcpy(to + t->offset, from + t->offset, (size_t)t->bytes);
    }
  }
}

// Return how many outputs have an element that was computed from memory that was never written.
static int undefined_outputs(const struct rlx_info *info, unsigned char *block) {
  int found = 0;
  for (uint32_t i = 0; i < info->tensor_count; ++i) {
    const struct rlx_tensor *const t = &info->tensors[i];
    if (t->role == RLX_OUTPUT && t->place == RLX_IN_ARENA) {
      found += VALGRIND_CHECK_MEM_IS_DEFINED(block + t->offset, t->bytes) != 0;
    }
  }
  return found;
}

int main(int argc, char **argv) {
  const struct rlx_info *const info = GET_INFO();
  unsigned char *first = (unsigned char *)arena; // NULL yet if the sample allocates it
  if (first != NULL) {
    (void)VALGRIND_MAKE_MEM_UNDEFINED(first, info->arena_bytes);
  }
#ifdef HAS_WEIGHTS
  int status = sample_main(argc, argv);
#else
  int status = sample_main();
#endif
  first = (unsigned char *)arena;
  unsigned char *const block = aligned_alloc(info->arena_alignment, info->arena_bytes);
  unsigned char *const weights_block = read_weights(info, argc, argv);
  int64_t extents[8] = {0};
  for (uint32_t i = 0; i < info->symbol_count && i < 8; ++i) {
    extents[i] = info->symbols[i].max;
  }
  status |= info->init(block, info->arena_bytes);
  if (weights_block != NULL) {
    status |= info->load_weights(block, weights_block, info->weights_bytes);
  }
  copy_inputs(info, block, first);
  status |= info->setup(block);
  status |= info->run(block, extents);
  status |= undefined_outputs(info, block);
  free(block);
  free(weights_block);
  return status != 0;
}

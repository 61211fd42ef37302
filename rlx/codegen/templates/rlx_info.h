// rlx_info.h: how a program reads names, types and sizes of any model that rlx exported.
//
// A model `points` has one function for it, `points_get_info`. A program that loads models as
// shared libraries needs nothing else of them: sizes, tensors by name, and the functions to call.
#ifndef RLX_INFO_H
#define RLX_INFO_H

#include <stddef.h>
#include <stdint.h>

// Changes whenever these structs do. Compare it before reading anything else.
#define RLX_INFO_ABI_VERSION 2

// What a tensor is, and its place.
enum { RLX_INPUT, RLX_OUTPUT, RLX_PARAM };
enum { RLX_IN_ARENA, RLX_IN_WEIGHTS, RLX_IN_CODE };

// The entry in `symbols` of a tensor for an axis that is no symbol by itself.
enum { RLX_FIXED = -1, RLX_COMPUTED = -2 };

struct rlx_tensor {
  const char *name;
  const char *dtype; // "f32", "i64", ...; "f16" and "bf16" as their bits, "c64" as pairs
  int32_t role;
  int32_t place;
  int32_t is_replaced; // 1 if a run leaves its next value where it was
  int32_t rank;
  int64_t offset; // in bytes, in the arena, the weights or the constants
  int64_t bytes;  // at the largest extents
  int64_t elements;
  const int64_t *shape;   // the largest extents; NULL for a scalar
  const int32_t *symbols; // per axis the symbol that it is, or one of the above
};

// An extent that is known at the call.
struct rlx_symbol {
  const char *name;
  int64_t min;
  int64_t max;
};

struct rlx_info {
  uint32_t abi_version;
  uint32_t tensor_count;
  uint32_t symbol_count;
  const char *name;
  const char *rlx_version;
  uint64_t source_hash;
  uint64_t arena_bytes;
  uint64_t arena_alignment; // of the arena and of the weights
  uint64_t stack_bytes;     // at most, of any call
  uint64_t weights_bytes;   // 0 if there is no weights file
  const struct rlx_tensor *tensors;
  const struct rlx_symbol *symbols;
  const void *constants; // where offsets of RLX_IN_CODE count from
  int (*init)(void *arena, size_t bytes);
  int (*load_weights)(void *arena, const void *data, size_t bytes); // NULL without a weights file
  int (*setup)(void *arena);
  int (*run)(void *arena, const int64_t *extents); // one extent per symbol
  const char *(*status_string)(int status);
  const char *(*fault_string)(const void *arena);
};

#endif

// load.c: loads any model that rlx exported as a shared library, shows what it is and runs it.
//
//   cc -std=c11 -Imodel load.c -ldl -o load
//   ./load model/libpoints.so points [model/points.weights]
//
// It needs the model's name alone: rlx_info.h has functions for the rest. Inputs are filled with ones.

#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rlx_info.h"

typedef const struct rlx_info *(*get_info_function)(void);

static const char *const roles[] = {"input", "output", "param"};

static const struct rlx_info *find_info(const char *library, const char *name) {
  void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  char symbol[256];
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return NULL;
  }
  snprintf(symbol, sizeof symbol, "%s_get_info", name);
  get_info_function get_info;
  void *const found = dlsym(handle, symbol);
  memcpy(&get_info, &found, sizeof get_info); // ISO C has no cast from data to functions
  const struct rlx_info *const info = get_info == NULL ? NULL : get_info();
  if (info == NULL || info->abi_version != RLX_INFO_ABI_VERSION) {
    fprintf(stderr, "%s: no model called %s of this version\n", library, name);
    return NULL;
  }
  return info;
}

static void *read_file(const char *path, const struct rlx_info *info) {
  void *data = NULL;
  FILE *const file = fopen(path, "rb");
  if (file == NULL || posix_memalign(&data, info->arena_alignment, info->weights_bytes) != 0 ||
      fread(data, 1, info->weights_bytes, file) != info->weights_bytes) {
    fprintf(stderr, "%s: cannot be read\n", path);
    return NULL;
  }
  fclose(file);
  return data;
}

static void show(const struct rlx_info *info) {
  printf("%s: arena %llu bytes, stack %llu, weights %llu\n", info->name,
         (unsigned long long)info->arena_bytes, (unsigned long long)info->stack_bytes,
         (unsigned long long)info->weights_bytes);
  for (uint32_t i = 0; i < info->tensor_count; ++i) {
    const struct rlx_tensor *const t = &info->tensors[i];
    printf("%s %s: %s[", roles[t->role], t->name, t->dtype);
    for (int32_t axis = 0; axis < t->rank; ++axis) {
      const char *const comma = axis > 0 ? ", " : "";
      if (t->symbols[axis] >= 0) {
        printf("%s%s", comma, info->symbols[t->symbols[axis]].name);
      } else {
        printf("%s%lld", comma, (long long)t->shape[axis]);
      }
    }
    printf("]%s\n", t->is_replaced ? ", replaced by a run" : "");
  }
}

static void fill_inputs(const struct rlx_info *info, unsigned char *arena) {
  for (uint32_t i = 0; i < info->tensor_count; ++i) {
    const struct rlx_tensor *const t = &info->tensors[i];
    if (t->role == RLX_INPUT && strcmp(t->dtype, "f32") == 0) {
      float *const x = (float *)(void *)(arena + t->offset);
      for (int64_t at = 0; at < t->elements; ++at) {
        x[at] = 1.0f;
      }
    } else if (t->role == RLX_INPUT) {
      memset(arena + t->offset, 0, (size_t)t->bytes);
    }
  }
}

static void print_outputs(const struct rlx_info *info, const unsigned char *arena) {
  for (uint32_t i = 0; i < info->tensor_count; ++i) {
    const struct rlx_tensor *const t = &info->tensors[i];
    if (t->role != RLX_OUTPUT || strcmp(t->dtype, "f32") != 0) {
      continue;
    }
    const float *const y = (const float *)(const void *)(arena + t->offset);
    printf("%s =", t->name);
    for (int64_t at = 0; at < t->elements && at < 8; ++at) {
      printf(" %g", (double)y[at]);
    }
    printf("\n");
  }
}

static int run(const struct rlx_info *info, unsigned char *arena, const void *weights) {
  int64_t extents[16];
  for (uint32_t i = 0; i < info->symbol_count && i < 16; ++i) {
    extents[i] = info->symbols[i].max;
  }
  int status = info->init(arena, info->arena_bytes);
  if (status == 0 && info->load_weights != NULL) {
    status = info->load_weights(arena, weights, info->weights_bytes);
  }
  fill_inputs(info, arena);
  if (status == 0) {
    status = info->setup(arena);
  }
  return status != 0 ? status : info->run(arena, extents);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s LIBRARY NAME [WEIGHTS]\n", argv[0]);
    return 2;
  }
  const struct rlx_info *const info = find_info(argv[1], argv[2]);
  if (info == NULL) {
    return 1;
  }
  show(info);
  void *const weights = argc > 3 ? read_file(argv[3], info) : NULL;
  void *arena = NULL;
  if ((argc > 3 && weights == NULL) ||
      posix_memalign(&arena, info->arena_alignment, info->arena_bytes) != 0) {
    return 1;
  }
  const int status = run(info, arena, weights);
  if (status != 0) {
    fprintf(stderr, "%s %s\n", info->status_string(status), info->fault_string(arena));
  } else {
    print_outputs(info, arena);
  }
  free(arena);
  free(weights);
  return status;
}

// Loads a library with OpenMP, runs it, closes it and goes on, a hundred times.

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#include "large.h"

static _Alignas(64) unsigned char arena[LARGE_ARENA_BYTES];

static int use(void *library) {
  int (*init)(void *, size_t) = (int (*)(void *, size_t))dlsym(library, "large_init");
  int (*setup)(void *) = (int (*)(void *))dlsym(library, "large_setup");
  int (*run)(void *) = (int (*)(void *))dlsym(library, "large_run");
  return init(arena, sizeof arena) != LARGE_OK || setup(arena) != LARGE_OK || run(arena) != LARGE_OK;
}

int main(int argc, char **argv) {
  const struct timespec pause = {0, 2000000};
  int times = 0;
  for (; argc == 2 && times < 100; ++times) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || use(library) != 0) {
      fprintf(stderr, "%s\n", library == NULL ? dlerror() : "it failed");
      return 1;
    }
    dlclose(library);
    nanosleep(&pause, NULL); // OpenMP's threads go on meanwhile
  }
  printf("%d times\n", times);
  return 0;
}

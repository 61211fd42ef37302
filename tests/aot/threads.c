// 64 threads with an arena each, then one run split into parts on threads: equal bits throughout.

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "large.h"

enum { THREADS = 64, PARTS = 7 };
enum { KERNELS = 3 }; // that divide their work, at least

static _Alignas(64) unsigned char arenas[THREADS][LARGE_ARENA_BYTES];

static int prepare(unsigned char *arena) {
  int status = large_init(arena, LARGE_ARENA_BYTES);
  for (size_t i = 0; i < LARGE_X_BYTES / sizeof(float); ++i) {
    large_arena_x(arena)[i] = (float)(i % 251) / 251;
  }
  return status != LARGE_OK ? status : large_setup(arena);
}

static void *run_one(void *arena) {
  return prepare(arena) == LARGE_OK && large_run(arena) == LARGE_OK ? arena : NULL;
}

struct part {
  large_task task;
  void *context;
  int64_t index;
};

static void *run_part(void *argument) {
  const struct part *part = argument;
  part->task(part->context, part->index);
  return NULL;
}

static void on_threads(void *context, int64_t count, large_task task, void *task_context) {
  pthread_t threads[PARTS];
  struct part parts[PARTS];
  *(int *)context += 1;
  for (int64_t i = count - 1; i >= 0; --i) {
    parts[i] = (struct part){task, task_context, i};
    pthread_create(&threads[i], NULL, run_part, &parts[i]);
  }
  for (int64_t i = 0; i < count; ++i) {
    pthread_join(threads[i], NULL);
  }
}

static int same(unsigned char *a, unsigned char *b) {
  return memcmp(large_arena_y_0(a), large_arena_y_0(b), LARGE_Y_0_BYTES) == 0 &&
         memcmp(large_arena_y_1(a), large_arena_y_1(b), LARGE_Y_1_BYTES) == 0;
}

int main(void) {
  pthread_t threads[THREADS];
  int equal = 1;
  for (int i = 0; i < THREADS; ++i) {
    pthread_create(&threads[i], NULL, run_one, arenas[i]);
  }
  for (int i = 0; i < THREADS; ++i) {
    void *done;
    pthread_join(threads[i], &done);
    equal &= done != NULL;
  }
  for (int i = 1; i < THREADS; ++i) {
    equal &= same(arenas[0], arenas[i]);
  }
  equal &= prepare(arenas[1]) == LARGE_OK;
  int divided = 0;
  equal &= large_run_parallel(arenas[1], PARTS, on_threads, &divided) == LARGE_OK;
  equal &= same(arenas[0], arenas[1]);
  printf(divided < KERNELS ? "%d kernels\n" : equal ? "equal\n" : "different\n", divided);
  return 0;
}

// Trains a network on the digits. All arithmetic is in digits_step.c and digits_predict.c, which
// export.py wrote, and network.h lists the arrays; this program reads files and keeps the arenas.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits_predict.h"
#include "digits_step.h"
#include "network.h"

enum { EPOCHS = 12, PIXELS = 64 };

static _Alignas(64) unsigned char step[DIGITS_STEP_ARENA_BYTES];
static _Alignas(64) unsigned char predict[DIGITS_PREDICT_ARENA_BYTES];
static _Alignas(64) unsigned char weights[DIGITS_STEP_WEIGHTS_BYTES];

struct set {
  int32_t count;
  float *images;
  int32_t *labels;
};

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check_step(int status, const char *what) {
  if (status != DIGITS_STEP_OK) {
    fail(what, digits_step_status_string(status));
  }
}

static void check_predict(int status, const char *what) {
  if (status != DIGITS_PREDICT_OK) {
    fail(what, digits_predict_status_string(status));
  }
}

static FILE *open_in(const char *directory, const char *name, const char *mode) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, mode);
  if (file == NULL) {
    fail(path, "cannot open");
  }
  return file;
}

static void read_exactly(FILE *file, void *to, size_t bytes) {
  if (fread(to, 1, bytes, file) != bytes) {
    fail("data file", "too short");
  }
}

static struct set read_set(FILE *file, int32_t count) {
  const size_t rows = (size_t)count;
  struct set set = {count, malloc(rows * PIXELS * sizeof(float)), malloc(rows * sizeof(int32_t))};
  if (set.images == NULL || set.labels == NULL) {
    fail("data", "out of memory");
  }
  read_exactly(file, set.images, rows * PIXELS * sizeof(float));
  read_exactly(file, set.labels, rows * sizeof(int32_t));
  return set;
}

static void free_set(struct set set) {
  free(set.images);
  free(set.labels);
}

// Prepare the training step with the initial params and optimizer state.
static void start(const char *directory) {
  FILE *file = open_in(directory, "digits_step.weights", "rb");
  const size_t bytes = fread(weights, 1, sizeof weights, file);
  fclose(file);
  check_step(digits_step_init(step, sizeof step), "init");
  check_step(digits_step_load_weights(step, weights, bytes), "weights");
  check_step(digits_step_setup(step), "setup");
}

// One pass over the images, a batch at a time; returns the last loss.
static float train_epoch(struct set set) {
  const int32_t batch = (int32_t)(DIGITS_STEP_Y_BYTES / sizeof(int32_t));
  float loss = 0;
  for (int32_t first = 0; first + batch <= set.count; first += batch) {
    const float *images = set.images + (size_t)first * PIXELS;
    check_step(digits_step_call(step, images, set.labels + first, &loss), "step");
  }
  return loss;
}

// The share of images that the trained network classifies as labeled.
static double accuracy(struct set set) {
  check_predict(digits_predict_init(predict, sizeof predict), "init");
#define COPY(name, NAME)                                                         \
  memcpy(digits_predict_arena_##name(predict), digits_step_arena_##name(step), \
         DIGITS_STEP_##NAME##_BYTES);
  NETWORK(COPY)
#undef COPY
  check_predict(digits_predict_setup(predict), "setup");
  check_predict(digits_predict_call(predict, set.images, NULL), "predict");
  int right = 0;
  for (int32_t i = 0; i < set.count; ++i) {
    right += digits_predict_arena_labels(predict)[i] == set.labels[i];
  }
  return (double)right / set.count;
}

static void save(const char *directory) {
  FILE *file = open_in(directory, "trained.bin", "wb");
#define WRITE(name, NAME) \
  fwrite(digits_step_arena_##name(step), 1, DIGITS_STEP_##NAME##_BYTES, file);
  NETWORK(WRITE)
#undef WRITE
  fclose(file);
}

int main(int argc, char **argv) {
  const char *directory = argc > 1 ? argv[1] : ".";
  FILE *file = open_in(directory, "digits.bin", "rb");
  int32_t counts[2];
  read_exactly(file, counts, sizeof counts);
  struct set training = read_set(file, counts[0]), test = read_set(file, counts[1]);
  fclose(file);
  if ((size_t)test.count * PIXELS * sizeof(float) != DIGITS_PREDICT_X_BYTES) {
    fail("digits.bin", "not as many test images as digits_predict takes");
  }
  start(directory);
  for (int epoch = 0; epoch < EPOCHS; ++epoch) {
    const float loss = train_epoch(training);
    printf("epoch %2d: loss %.9g\n", epoch + 1, (double)loss);
  }
  printf("accuracy %.1f%%\n", 100 * accuracy(test));
  save(directory);
  free_set(training);
  free_set(test);
  return 0;
}

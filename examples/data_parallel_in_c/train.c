// Trains the digits MLP on several ranks. All arithmetic, and all that passes between ranks, is
// in step.c, which examples.data_parallel wrote; this program reads files and keeps the arena.
//
//   mpicc -O3 -std=c11 step.c train.c -lm -o train && mpirun -n 2 ./train [epochs]

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "step.h"

enum { EPOCHS = 12, PIXELS = 64 };

static _Alignas(64) unsigned char arena[STEP_ARENA_BYTES];
static _Alignas(64) unsigned char weights[STEP_WEIGHTS_BYTES];

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int status, const char *what) {
  if (status != STEP_OK) {
    fail(what, step_status_string(status));
  }
}

// Read a whole file into `to`, or into new memory; returns where it is and how long.
static void *read_file(const char *name, void *to, size_t most, size_t *bytes) {
  FILE *file = fopen(name, "rb");
  if (file == NULL) {
    fail(name, "cannot open");
  }
  to = to == NULL ? malloc(most) : to;
  if (to == NULL) {
    fail(name, "out of memory");
  }
  *bytes = fread(to, 1, most, file);
  fclose(file);
  return to;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int epochs = argc > 1 ? atoi(argv[1]) : EPOCHS;

  size_t weight_bytes, image_bytes, label_bytes;
  read_file("step.weights", weights, sizeof weights, &weight_bytes);
  float *const images = read_file("images.f32", NULL, 1 << 20, &image_bytes);
  int32_t *const labels = read_file("labels.i32", NULL, 1 << 20, &label_bytes);
  const int count = (int)(label_bytes / sizeof *labels);

  check(step_init(arena, sizeof arena), "init");
  check(step_load_weights(arena, weights, weight_bytes), "weights");
  check(step_setup(arena), "setup");

  // Rank r takes part r of every batch: the shares are those that the step was written for.
  const int64_t communicator = MPI_Comm_c2f(MPI_COMM_WORLD);
  const int share = (int)(STEP_Y_BYTES / sizeof *labels);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    float loss = 0;
    for (int first = 0; first + share * ranks <= count; first += share * ranks) {
      const int own = first + share * rank;
      check(step_call(arena, &communicator, images + own * PIXELS, labels + own, &loss), "step");
    }
    if (rank == 0) {
      printf("epoch %2d  loss %.6f\n", epoch + 1, loss);
    }
  }
  free(images);
  free(labels);
  MPI_Finalize();
  return 0;
}

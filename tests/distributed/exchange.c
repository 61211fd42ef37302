// Runs an exported step on the share of each rank: reads x.<rank>, writes y.<rank>.
//
//   mpicc exchange.c step.c -lm -o exchange && mpirun -n 2 ./exchange

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "step.h"

static _Alignas(STEP_ARENA_ALIGNMENT) unsigned char arena[STEP_ARENA_BYTES];

static FILE *opened(const char *name, int rank, const char *mode) {
  char path[64];
  snprintf(path, sizeof path, "%s.%d", name, rank);
  FILE *const file = fopen(path, mode);
  if (file == NULL) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return file;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int status = step_init(arena, sizeof arena);
  status = status == STEP_OK ? step_setup(arena) : status;
  *step_arena_communicator_ranks(arena) = MPI_Comm_c2f(MPI_COMM_WORLD);

  FILE *const given = opened("x", rank, "rb");
  const size_t count = fread(step_arena_x(arena), 1, STEP_X_BYTES, given);
  fclose(given);
  status = status == STEP_OK && count == STEP_X_BYTES ? step_run(arena) : status;
  if (status != STEP_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, step_status_string(status));
    MPI_Finalize();
    return 1;
  }
  FILE *const found = opened("y", rank, "wb");
  const struct rlx_info *const info = step_get_info();
  for (uint32_t i = 0; i < info->tensor_count; ++i) {
    const struct rlx_tensor *const tensor = &info->tensors[i];
    if (tensor->role == RLX_OUTPUT) {
      fwrite(arena + tensor->offset, 1, (size_t)tensor->bytes, found);
    }
  }
  fclose(found);
  MPI_Finalize();
  return 0;
}

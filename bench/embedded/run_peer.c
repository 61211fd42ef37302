// run_peer.c: runs a peer's program a number of times; the peer's C has these two functions.

#include <stdlib.h>

void fill_inputs(void);
void run_once(void);

int main(int argc, char **argv) {
  fill_inputs();
  for (int runs = argc < 2 ? 0 : atoi(argv[1]); runs > 0; --runs) {
    run_once();
  }
  return 0;
}

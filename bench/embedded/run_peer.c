// run_peer.c: runs a peer's program a number of times; the peer's C has these two functions.

#include <stdlib.h>

void peer_fill(void);
void peer_run(void);

int main(int argc, char **argv) {
  peer_fill();
  for (int runs = argc < 2 ? 0 : atoi(argv[1]); runs > 0; --runs) {
    peer_run();
  }
  return 0;
}

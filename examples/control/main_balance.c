// main_balance.c: a simulated cart and pole, and the controller that swings the pole up by a network
// and balances it by quadratic programs.

#include "balance.h"
#include "cart.h"

static int64_t arena[(BALANCE_ARENA_BYTES + 7) / 8];

// What the controller keeps; two of them take turns.
struct memory {
  float mean[4], covariance[16], force;
};

int main(void) {
  static struct memory memories[2];
  struct cart cart = {0, 0, 3.14159265f, 0};
  if (balance_init(arena, sizeof arena) != 0 || balance_setup(arena) != 0) {
    return 1;
  }
  memories[0].mean[2] = cart.angle;
  for (int i = 0; i < 4; ++i) {
    memories[0].covariance[5 * i] = 0.01f;
  }
  for (int step = 0; step < STEPS; ++step) {
    const struct memory *old = &memories[step % 2];
    struct memory *new = &memories[(step + 1) % 2];
    float measured[2];
    measure(&cart, measured);
#ifdef __arm__
    const struct start begun = start_measuring();
#endif
    const int status = balance_call(arena, old->mean, old->covariance, &old->force, measured,
                                    new->mean, new->covariance, &new->force);
#ifdef __arm__
    print_measured(begun, 1);
#endif
    if (status != 0) {
      return 1;
    }
    drive(&cart, new->force);
  }
  return 0;
}

// main_swing_up.c: a simulated cart and pole, and the controller that swings the pole up.

#include "cart.h"
#include "first_plan.h"
#include "swing_up.h"

static int64_t arena[(SWING_UP_ARENA_BYTES + 7) / 8];

enum { HORIZON = sizeof first_inputs / sizeof *first_inputs };

// What the controller keeps; two of them take turns.
struct memory {
  float mean[4], covariance[16], states[4 * HORIZON], inputs[HORIZON], gains[4 * HORIZON];
};

static void reset(struct memory *memory) {
  memory->mean[2] = 3.14159265f;
  for (int i = 0; i < 4; ++i) {
    memory->covariance[5 * i] = 0.01f;
  }
  for (int i = 0; i < 4 * HORIZON; ++i) {
    memory->states[i] = first_states[i];
    memory->gains[i] = first_gains[i];
  }
  for (int i = 0; i < HORIZON; ++i) {
    memory->inputs[i] = first_inputs[i];
  }
}

int main(void) {
  static struct memory memories[2];
  struct cart cart = {0, 0, 3.14159265f, 0};
  if (swing_up_init(arena, sizeof arena) != 0 || swing_up_setup(arena) != 0) {
    return 1;
  }
  reset(&memories[0]);
  for (int step = 0; step < STEPS; ++step) {
    const struct memory *old = &memories[step % 2];
    struct memory *new = &memories[(step + 1) % 2];
    float measured[2], force;
    measure(&cart, measured);
#ifdef __arm__
    const struct start begun = start_measuring();
#endif
    const int status = swing_up_call(arena, old->mean, old->covariance, old->states, old->inputs,
                                     old->gains, measured, new->mean, new->covariance,
                                     new->states, new->inputs, new->gains, &force);
#ifdef __arm__
    print_measured(begun, 1);
#endif
    if (status != 0) {
      return 1;
    }
    drive(&cart, force);
  }
  return 0;
}

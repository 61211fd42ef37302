"""Function transformations: jit, derivatives, batching, control flow, custom rules."""

import rlx.numpy  # noqa: F401  traced arrays get their methods

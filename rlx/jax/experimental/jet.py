"""`jax.experimental.jet`: Taylor series of functions of series."""

from rlx.transforms.taylor import jet as jet

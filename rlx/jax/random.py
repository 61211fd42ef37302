"""`jax.random`: `rlx.random`, with JAX's bits where the draws of `rlx.random` are more uniform."""

from rlx.public_names import names_of as _names_of
from rlx.random import *  # noqa: F403
from rlx.random.choices import jax_choice as choice  # noqa: F401
from rlx.random.uniforms import jax_randint as randint  # noqa: F401

__dir__ = _names_of(__name__)

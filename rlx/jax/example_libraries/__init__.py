"""`jax.example_libraries`: the small optimizers and layers that older programs are written with."""

from rlx.jax.example_libraries import optimizers as optimizers
from rlx.jax.example_libraries import stax as stax
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)

"""`jax.custom_batching`: functions with batching rules of their own."""

from rlx.public_names import names_of as _names_of
from rlx.transforms.custom_vmap import custom_vmap as custom_vmap
from rlx.transforms.custom_vmap import sequential_vmap as sequential_vmap

__dir__ = _names_of(__name__)

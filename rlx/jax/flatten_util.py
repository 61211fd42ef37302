"""`jax.flatten_util`: trees as vectors."""

from rlx.public_names import names_of as _names_of
from rlx.transforms.ravel import ravel_pytree as ravel_pytree

__all__ = ["ravel_pytree"]

__dir__ = _names_of(__name__)

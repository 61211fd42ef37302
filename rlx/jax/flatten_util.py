"""`jax.flatten_util`: trees as vectors."""

from rlx.transforms.ravel import ravel_pytree as ravel_pytree

__all__ = ["ravel_pytree"]

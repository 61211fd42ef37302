"""`jax.tree_util`: `rlx.tree_util`."""

from rlx.tree_util import *  # noqa: F403

"""`jax.tree_util`: `rlx.tree_util`."""

from rlx.public_names import names_of as _names_of
from rlx.tree_util import *  # noqa: F403

__dir__ = _names_of(__name__)

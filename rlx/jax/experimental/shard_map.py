"""`jax.experimental.shard_map`."""

from rlx.jax.sharding import shard_map as shard_map
from rlx.public_names import names_of as _names_of

__dir__ = _names_of(__name__)

"""`jax.experimental.shard_map`."""

from rlx.jax.sharding import shard_map as shard_map

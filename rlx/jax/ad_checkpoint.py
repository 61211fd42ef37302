"""`jax.ad_checkpoint`: what derivatives keep, and what they compute again."""

from rlx.public_names import names_of as _names_of
from rlx.transforms.checkpointing import checkpoint as checkpoint
from rlx.transforms.checkpointing import checkpoint_name as checkpoint_name
from rlx.transforms.checkpointing import checkpoint_policies as checkpoint_policies

remat = checkpoint

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]

__dir__ = _names_of(__name__)

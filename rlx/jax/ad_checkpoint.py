"""`jax.ad_checkpoint`: what derivatives keep, and what they compute again."""

import rlx

checkpoint = remat = rlx.checkpoint
checkpoint_name = rlx.checkpoint_name
checkpoint_policies = rlx.checkpoint_policies

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]

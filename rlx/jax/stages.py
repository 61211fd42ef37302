"""`jax.stages`: the classes of a compiled function's steps."""

from rlx.transforms.jit import JittedFunction as Wrapped
from rlx.transforms.stages import Compiled as Compiled
from rlx.transforms.stages import Lowered as Lowered
from rlx.transforms.stages import Traced as Traced

__all__ = ["Compiled", "Lowered", "Traced", "Wrapped"]

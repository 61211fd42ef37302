"""`jax.stages`: the classes of a compiled function's steps."""

from rlx.public_names import names_of as _names_of
from rlx.transforms.jit import JittedFunction as Wrapped
from rlx.transforms.stages import Compiled as Compiled
from rlx.transforms.stages import Lowered as Lowered
from rlx.transforms.stages import Traced as Traced

__all__ = ["Compiled", "Lowered", "Traced", "Wrapped"]

__dir__ = _names_of(__name__)

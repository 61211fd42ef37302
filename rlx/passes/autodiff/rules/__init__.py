"""The derivative rules of all ops, one file per family; importing this fills the registries."""

from rlx.passes.autodiff.rules import elementwise as elementwise
from rlx.passes.autodiff.rules import linalg as linalg
from rlx.passes.autodiff.rules import reduction as reduction
from rlx.passes.autodiff.rules import shape as shape

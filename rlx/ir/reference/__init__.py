"""The NumPy meaning of every op: the oracle of all backends, and the constant folder.

One file per family; each is loaded when a rule of it is asked for (`ir.lazy_table`).
"""

from rlx.ir.reference.interpreter import evaluate as evaluate
from rlx.ir.reference.interpreter import evaluate_body as evaluate_body
from rlx.ir.reference.interpreter import fold as fold
from rlx.ir.reference.registry import reference as reference

"""The batching rules of all ops, one file per family; importing this fills the registry.

Elementwise ops and reductions have none: their traits say all there is to say.
"""

from rlx.passes.vmap.rules import attention as attention
from rlx.passes.vmap.rules import collective as collective
from rlx.passes.vmap.rules import control as control
from rlx.passes.vmap.rules import conv as conv
from rlx.passes.vmap.rules import custom as custom
from rlx.passes.vmap.rules import decompositions as decompositions
from rlx.passes.vmap.rules import foreign as foreign
from rlx.passes.vmap.rules import indexing as indexing
from rlx.passes.vmap.rules import linalg as linalg
from rlx.passes.vmap.rules import loops as loops
from rlx.passes.vmap.rules import loss as loss
from rlx.passes.vmap.rules import norm as norm
from rlx.passes.vmap.rules import packed as packed
from rlx.passes.vmap.rules import reduction as reduction
from rlx.passes.vmap.rules import shape as shape
from rlx.passes.vmap.rules import signal as signal
from rlx.passes.vmap.rules import solve as solve
from rlx.passes.vmap.rules import splat as splat

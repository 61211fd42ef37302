"""The derivative rules of all ops, one file per family; importing this fills the registries."""

from rlx.passes.autodiff.rules import attention as attention
from rlx.passes.autodiff.rules import branches as branches
from rlx.passes.autodiff.rules import channel_norm as channel_norm
from rlx.passes.autodiff.rules import collective as collective
from rlx.passes.autodiff.rules import control as control
from rlx.passes.autodiff.rules import conv as conv
from rlx.passes.autodiff.rules import custom as custom
from rlx.passes.autodiff.rules import decompositions as decompositions
from rlx.passes.autodiff.rules import elementwise as elementwise
from rlx.passes.autodiff.rules import foreign as foreign
from rlx.passes.autodiff.rules import indexing as indexing
from rlx.passes.autodiff.rules import least_squares as least_squares
from rlx.passes.autodiff.rules import linalg as linalg
from rlx.passes.autodiff.rules import loops as loops
from rlx.passes.autodiff.rules import loss as loss
from rlx.passes.autodiff.rules import norm as norm
from rlx.passes.autodiff.rules import packed as packed
from rlx.passes.autodiff.rules import pool as pool
from rlx.passes.autodiff.rules import quant as quant
from rlx.passes.autodiff.rules import reduction as reduction
from rlx.passes.autodiff.rules import shape as shape
from rlx.passes.autodiff.rules import signal as signal
from rlx.passes.autodiff.rules import solve as solve
from rlx.passes.autodiff.rules import splat as splat
from rlx.passes.autodiff.rules import while_loops as while_loops

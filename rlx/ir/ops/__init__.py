# ruff: noqa: F403
"""Every op, by name: `from rlx.ir import ops; ops.tanh`.

A family's file declares types, formulas and traits of its ops. It is loaded when a name of it is
first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.homes import homes_of, lazily

if TYPE_CHECKING:
    from rlx.ir.ops.activation import *
    from rlx.ir.ops.attention import *
    from rlx.ir.ops.axial_rope import *
    from rlx.ir.ops.bf16_products import *
    from rlx.ir.ops.branches import *
    from rlx.ir.ops.byte_products import *
    from rlx.ir.ops.byte_tables import *
    from rlx.ir.ops.channel_norm import *
    from rlx.ir.ops.collective import *
    from rlx.ir.ops.control import *
    from rlx.ir.ops.conv import *
    from rlx.ir.ops.conv_transpose import *
    from rlx.ir.ops.custom import *
    from rlx.ir.ops.decompositions import *
    from rlx.ir.ops.elementwise import *
    from rlx.ir.ops.experts import *
    from rlx.ir.ops.foreign import *
    from rlx.ir.ops.fourier import *
    from rlx.ir.ops.fused import *
    from rlx.ir.ops.indexing import *
    from rlx.ir.ops.layout import *
    from rlx.ir.ops.leaf import *
    from rlx.ir.ops.least_squares import *
    from rlx.ir.ops.linalg import *
    from rlx.ir.ops.loops import *
    from rlx.ir.ops.loss import *
    from rlx.ir.ops.norm import *
    from rlx.ir.ops.packed import *
    from rlx.ir.ops.packed_int8 import *
    from rlx.ir.ops.pool import *
    from rlx.ir.ops.quant import *
    from rlx.ir.ops.ragged import *
    from rlx.ir.ops.random import *
    from rlx.ir.ops.reduction import *
    from rlx.ir.ops.resample import *
    from rlx.ir.ops.resize import *
    from rlx.ir.ops.scaled_weights import *
    from rlx.ir.ops.shape import *
    from rlx.ir.ops.signal import *
    from rlx.ir.ops.solve import *
    from rlx.ir.ops.sort_stages import *
    from rlx.ir.ops.state_space import *
    from rlx.ir.ops.stored_conv import *
    from rlx.ir.ops.stored_products import *
    from rlx.ir.ops.trajectories import *
    from rlx.ir.ops.trees import *
    from rlx.ir.ops.windows import *
else:
    __getattr__ = lazily(__name__)

FAMILIES = tuple(dict.fromkeys(homes_of(__name__).values()))
"""The modules of ops, in the order in which their names replace each other."""


def __dir__() -> list[str]:
    return sorted(homes_of(__name__))

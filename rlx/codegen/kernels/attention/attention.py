"""Attention in one pass over the keys: which kernel computes it.

Scores never exist but for one block of keys and one tile of queries. Several queries are side
by side in the lanes of vectors (`lanes.py`); for one to three, as when a sequence grows
by a token, vectors run along the heads instead (`attention_direct`). A row whose keys were
all hidden by -inf gives NaN, as the formula does.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.attention.direct import attend_directly
from rlx.codegen.kernels.attention.lanes import attend_in_lanes
from rlx.codegen.kernels.attention.operands import Attention
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.errors import InternalError
from rlx.ir.lowering import Schedule
from rlx.ir.ops.attention_layout import attention_layout


@kernel("attention", lowering=Schedule)
def attention_in_tiles(
    scope: Scope,
    q: Reader,
    k: Reader,
    v: Reader,
    *rest: Reader | Writer,
    lowering: Schedule,
    num_heads: int,
    head_dim: int,
    mask_kind: str,
    window: int | None,
    score_scale: float | None,
    softcap: float | None,
    layout: str,
) -> None:
    axes = attention_layout(
        q.shape, k.shape, v.shape, num_heads=num_heads, head_dim=head_dim, layout=layout
    )
    mask = rest[0] if isinstance(rest[0], Reader) else None
    result = rest[-1]
    if not isinstance(result, Writer):
        raise InternalError("attention: the last operand is the result")
    scale = head_dim**-0.5 if score_scale is None else score_scale
    work = Attention(scope, axes, q, k, v, mask, result, mask_kind, window, scale, softcap)
    if axes.is_direct:
        attend_directly(work, lowering.rows, lowering.columns, lowering.lanes)
    else:
        attend_in_lanes(work, lowering.columns, lowering.rows, lowering.lanes)

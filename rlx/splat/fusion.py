"""Pattern fusion: Gaussian splatting in two stages becomes one op, which has a derivative.

%1 = gaussian_splat_prepare %scene..., %meta
%2 = gaussian_splat_rasterize %1, %meta       ->  %2 = gaussian_splat_render %scene..., %meta
"""

from __future__ import annotations

from rlx.custom import (
    Graph,
    Node,
    Replacement,
    Rewritten,
    Value,
    apply_rewrites,
    before_autodiff,
    graph_pass,
    rewrite,
)
from rlx.errors import GraphError
from rlx.splat.formulas import (
    gaussian_splat_prepare,
    gaussian_splat_rasterize,
    gaussian_splat_render,
)
from rlx.splat.layout import Screen, count, list_entries

_SHARED = ("width", "height", "tile_size", "alpha_cutoff")
"""Attributes that the two stages must agree on."""


@before_autodiff
@graph_pass
def fuse_decomposed_gaussian_splat(graph: Graph) -> Rewritten:
    """Make each rasterization of a prepared scene one rendering of that scene."""
    return apply_rewrites(graph, [_one_render])


@rewrite(gaussian_splat_rasterize)
def _one_render(node: Node) -> Replacement:
    prepared, meta = node.operands
    if prepared.op is not gaussian_splat_prepare:
        return None
    before, own = prepared.node.attrs.as_dict(), node.attrs.as_dict()
    if not _is_same(prepared.node.operands[6], meta):
        raise GraphError(
            "gaussian_splat_rasterize has another meta than its gaussian_splat_prepare; they "
            "cannot be differentiated as one",
            source=node.source,
            remedy="give both the same camera",
        )
    before["max_list_entries"] = _entries(prepared.node)
    for name in (*_SHARED, "max_list_entries"):
        if before[name] != own[name]:
            raise GraphError(
                f"gaussian_splat_rasterize has {name} = {own[name]} and its "
                f"gaussian_splat_prepare {before[name]}; they cannot be differentiated as one",
                source=node.source,
                remedy=f"give both the same {name}",
            )
    return gaussian_splat_render(
        *prepared.node.operands, **own, radius_scale=before["radius_scale"]
    )


def _entries(node: Node) -> int:
    given = node.attrs.as_dict()
    splats = count(node.operands[0].type, "positions") // 3
    screen = Screen(given["width"], given["height"], given["tile_size"])
    return list_entries(splats, screen, given["max_list_entries"])


def _is_same(a: Value, b: Value) -> bool:
    constants = a.op.name == b.op.name == "constant"
    return a is b or (constants and a.node.attrs == b.node.attrs)

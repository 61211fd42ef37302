"""Tiles for convolutions of images whose channels lie side by side.

    %2 = conv_channels_last %x, %w {padding = ((1, 1), (1, 1))}
        ->  %2 = pad %x
            %3 = pack_panels %w {width = 32}
            %4 = conv_channels_last %2, %3 lowering = direct(high = 1, wide = 14, columns = 32, ...)

Where an element has few channels, those of a row of taps, which lie side by side, are taken as one
longer row of taps: the innermost loop runs over them all. What no tile fits is turned around to
channels in front.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.lowering import Direct
from rlx.ir.op import make_attrs
from rlx.ir.ops.conv_channels_last import planes_of
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Planes,
    Sliding,
    attributes_of,
    bare,
    geometry,
    padded_shape,
)
from rlx.ir.ops.conv_padding import padded
from rlx.ir.shape import upper
from rlx.passes.layout.choices import Choice, Why
from rlx.passes.layout.convolution_tiles import FEWEST_LANES, cheapest_tile
from rlx.passes.layout.pack_operands import in_panels
from rlx.passes.rewrites.decompose import expand_formula
from rlx.target import Target

_FEW_CHANNELS = 8


def choose_channels_last(node: Node, target: Target) -> Choice:
    """Choose the tile of a convolution with channels last."""
    x, w = node.operands
    if x.dtype not in (DType.F32, DType.F64) or node.attribute("groups") != 1:
        return Why.DTYPE.because(x.dtype)
    if not all(isinstance(extent, int) for extent in w.shape):
        return Why.SYMBOLIC_WINDOW.because(w.type)
    lanes = target.lanes(x.dtype.size)
    tile = cheapest_tile(_planes(node), upper(w.shape[-1]), lanes, target.vector_registers)
    if tile is None:
        return Why.FEW_CHANNELS.because(w.shape[-1], FEWEST_LANES)
    return Why.CONVOLVED.because(lowering=tile)


def lowered_channels_last(node: Node, choice: Choice) -> Value:
    """Return the convolution over its padded input, with weights in panels."""
    tile = choice.lowering
    if not isinstance(tile, Direct):
        formula = expand_formula(node)
        assert isinstance(formula, Value)  # it is a composite of one result
        return formula
    x, w = node.operands
    sliding = _sliding_of(node)
    x, sliding = padded(x, sliding, first=1), bare(sliding)
    if upper(x.shape[-1]) <= _FEW_CHANNELS and sliding[-1].dilation == 1:
        x, w, sliding = _in_one_row(x, w, sliding)
    panels = in_panels(w, tile.columns, tile.lanes, transposed=False)
    attrs = make_attrs(ops.conv_channels_last, {**attributes_of(sliding), "groups": 1})
    return node.result.graph.append(node.op, (x, panels), attrs, lowering=tile)[0]


def _in_one_row(x: Value, w: Value, sliding: Geometry) -> tuple[Value, Value, Geometry]:
    """Take the channels of a row's elements as elements of one channel."""
    channels = upper(x.shape[-1])
    row = ops.reshape(x, shape=(*x.shape[:-2], x.shape[-2] * channels, 1))
    taps = ops.reshape(w, shape=(*w.shape[:-3], w.shape[-3] * channels, 1, w.shape[-1]))
    return row, taps, (*sliding[:-1], Sliding(stride=sliding[-1].stride * channels))


def _sliding_of(node: Node) -> Geometry:
    attributes = node.attrs.as_dict()
    del attributes["groups"]
    return geometry(node.result.rank - 2, **attributes)


def _planes(node: Node) -> Planes:
    """Return the planes of a convolution once its input is padded."""
    x, w = node.operands
    spatial = padded_shape((0, 0, *x.shape[1:-1]), _sliding_of(node))[2:]
    return planes_of((*x.shape[:1], *spatial, *x.shape[-1:]), w.shape, bare(_sliding_of(node)))

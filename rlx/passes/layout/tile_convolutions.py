"""Kernel selection, tiling and data layout of weights for convolutions.

    %2 = conv %x, %w {padding = ((1, 1), (1, 1))}
        ->  %2 = pad %x
            %3 = pack_panels %w {layout = ChannelPanels(width = 32, groups = 1)}
            %4 = conv %2, %3 lowering = schedule(rows = 1, across = 14, columns = 32, ...)

A convolution whose window is the whole image is a matrix product, and one of single taps where that
costs less than tiles (`single_taps.py`). Others of f32 and f64 get tiles, or, where a group has one
channel, rows in vectors; either over an input that is padded (and spread apart, where a gradient
asks for it) beforehand. What is too small stays as it is. 16-bit operands are widened first, and
the result is rounded once; bf16 runs over words of two channels where the target multiplies pairs
(`stored_conv`).

The tile is the one of least cost (`convolution_tiles.py`). Weights are packed in `setup`.
Requires nothing; run it before products are packed, and before fusion.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.layout import ChannelPanels
from rlx.ir.lowering import Lowering, RegisterTranspose, Schedule, Windowed
from rlx.ir.op import make_attrs
from rlx.ir.ops.bf16_products import BF16_PER_WORD, words_of_bf16
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Planes,
    attributes_of,
    padded_shape,
    pads_itself,
    undilated,
)
from rlx.ir.ops.conv_padding import padded
from rlx.ir.shape import product, upper
from rlx.passes.layout.choices import Choice, ChoiceObserver, Why, no_layout
from rlx.passes.layout.convolution_loops import convolution_loops
from rlx.passes.layout.convolution_tiles import (
    FEWEST_LANES,
    LEAST_WORK,
    Vectors,
    cheapest_tile,
    has_channels_last,
    is_bare,
    is_pointwise,
    only_pads,
    sliding_of,
)
from rlx.passes.layout.given_schedules import given_schedule
from rlx.passes.layout.single_taps import beats_product
from rlx.passes.layout.tile_channels_last import choose_channels_last, lowered_channels_last
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites
from rlx.target import Target

_LARGEST_STEP = 2
"""Between neighboring positions of a depthwise row: every second element is one shuffle away."""


def tile_convolutions(target: Target, seen: ChoiceObserver = no_layout) -> GraphPass:
    """Return the pass for `target`; `seen` is called with every convolution."""

    def rule(node: Node) -> Value | None:
        if node.lowering is not None:
            return None
        last = has_channels_last(node)
        if node.op is not ops.conv and not last:
            return None
        choice = (choose_channels_last if last else choose_convolution)(node, target)
        seen(node, choice)
        return (lowered_channels_last if last else _rewritten)(node, choice)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [LocalRewrite((ops.conv, ops.stored_conv), rule)])

    return GraphPass("tile-convolutions", run, __doc__ or "")


def choose_convolution(node: Node, target: Target) -> Choice:
    """Choose how `node`, a convolution, is computed."""
    x, _ = node.operands
    if not x.dtype.is_low_precision:
        return _choose(node, target)
    if x.dtype is DType.BF16 and target.dots_bf16 and not target.has_slow_bf16_dots:
        choice = _choose(node, target)
        if choice.why in (Why.WHOLE_WINDOW, Why.SINGLE_TAPS):
            return choice
        if choice.why is Why.CONVOLVED and _pairs_channels(node):
            tile = choose_tile(node, target, per_word=BF16_PER_WORD)
            return Why.PAIRS.because(target.cpu, lowering=tile)
    return Why.WIDENED.because(x.dtype)


def _pairs_channels(node: Node) -> bool:
    """True if channels are multiplied in pairs, over an input that is only padded."""
    alone = node.attribute("groups") == 1 and upper(node.operands[1].shape[1]) > 1
    return alone and only_pads(sliding_of(node))


def _choose(node: Node, target: Target) -> Choice:
    x, w = node.operands
    if x.dtype not in (DType.F32, DType.F64, DType.BF16):
        return Why.DTYPE.because(x.dtype)
    if not all(isinstance(e, int) for e in (x.shape[1], *w.shape)):
        return Why.SYMBOLIC_WINDOW.because(w.type)
    given = given_schedule(node, target)
    if given is not None:
        return Why.GIVEN.because(lowering=with_loops(node, given))
    if is_product(node):
        return Why.WHOLE_WINDOW.because()
    if is_pointwise(node) and isinstance(product(node.result.shape[2:]), int):
        tile = choose_tile(node, target)
        if tile is None or not beats_product(node, tile, target):
            return Why.SINGLE_TAPS.because()
        return Why.CONVOLVED.because(lowering=tile)
    work = upper(product((*node.result.shape, *w.shape[1:])))
    if work < LEAST_WORK:
        return Why.SMALL.because(work, LEAST_WORK)
    windowed = choose_window(node, target)
    if windowed is not None:
        each = upper(w.shape[0]) // upper(x.shape[1])
        return Why.DEPTHWISE.because(1, each, windowed)
    tile = choose_tile(node, target)
    if tile is None:
        return Why.FEW_CHANNELS.because(w.shape[0], FEWEST_LANES)
    return Why.CONVOLVED.because(lowering=tile)


def is_product(node: Node) -> bool:
    """True if the window is the whole image: every element has one tap."""
    x, w = node.operands
    return is_bare(node) and x.shape[2:] == w.shape[2:]


def choose_window(node: Node, target: Target) -> Windowed | None:
    """Choose vectors for a depthwise convolution; None for another one."""
    x, w = node.operands
    groups, lanes = node.attribute("groups"), target.lanes(x.dtype.size)
    few = upper(w.shape[0]) // groups < FEWEST_LANES
    if (
        x.shape[1] != groups
        or not few
        or planes_of_convolution(node).strides[2] > _LARGEST_STEP
        or lanes < 2
    ):
        return None
    return Windowed(lanes)


def choose_tile(node: Node, target: Target, *, per_word: int = 1) -> Schedule | None:
    """Choose the schedule of the tile of least cost; None for too few channels.

    A word has `per_word` channels.
    """
    x, w = node.operands
    each = upper(w.shape[0]) // node.attribute("groups")
    vectors = Vectors.of(target, max(x.dtype.size, DType.F32.size))  # bf16 is summed in f32
    tile = cheapest_tile(planes_of_convolution(node), each, vectors)
    return None if tile is None else with_loops(node, tile, per_word=per_word)


def with_loops(node: Node, tile: Schedule, *, per_word: int = 1) -> Schedule:
    """Return the schedule of a tile with the loops that it leaves open."""
    if tile.order:
        return tile
    x, w = node.operands
    planes = planes_of_convolution(node)
    words = replace(planes, channels=-(-planes.channels // per_word))
    images, outputs, size = upper(x.shape[0]), upper(w.shape[0]), max(x.dtype.size, DType.F32.size)
    return convolution_loops(tile, images, words, outputs, size, groups=node.attribute("groups"))


def planes_of_convolution(node: Node) -> Planes:
    """Return the planes of a convolution once its input is padded."""
    x, w = node.operands
    return Planes.of(padded_shape(x.shape, sliding_of(node)), w.shape, undilated(sliding_of(node)))


# The new nodes


def _rewritten(node: Node, choice: Choice) -> Value | None:
    if choice.why is Why.WIDENED:
        return _in_single_precision(node)
    if choice.why is Why.PAIRS:
        return _convolution_of_pairs(node, choice.lowering)
    if choice.why is Why.WHOLE_WINDOW:
        return _as_product(node)
    if choice.why is Why.SINGLE_TAPS:
        return _as_products(node)
    return None if choice.lowering is None else _lowered(node, choice.lowering)


def _in_single_precision(node: Node) -> Value:
    wide = [ops.cast(operand, to=DType.F32) for operand in node.operands]
    result: Value = ops.cast(ops.conv(*wide, **node.attrs.as_dict()), to=node.result.dtype)
    return result


def _convolution_of_pairs(node: Node, lowering: Lowering | None) -> Value:
    """Return a convolution of bf16 over words of two channels, rounded once."""
    assert isinstance(lowering, Schedule)
    x, w = node.operands
    image = words_of_bf16(padded(x, sliding_of(node)), 1)
    panels = ops.pack_panels(words_of_bf16(w, 1), layout=ChannelPanels(lowering.columns))
    attrs = make_attrs(
        ops.stored_conv, {**attributes_of(undilated(sliding_of(node))), "elements": "bf16"}
    )
    sums = image.graph.append(ops.stored_conv, (image, panels), attrs, lowering=lowering)[0]
    result: Value = ops.cast(sums, to=node.result.dtype)
    return result


def _as_product(node: Node) -> Value:
    """Return every image as a row, times every output channel as a column."""
    x, w = node.operands
    window = math.prod(upper(extent) for extent in w.shape[1:])
    rows = ops.reshape(x, shape=(x.shape[0], window))
    columns = ops.transpose(ops.reshape(w, shape=(w.shape[0], window)), perm=(1, 0))
    result: Value = ops.reshape(ops.matmul(rows, columns), shape=node.result.shape)
    return result


def _as_products(node: Node) -> Value:
    """Return the matrix of weights times the pixels of every image."""
    x, w = node.operands
    x = every_window(x, sliding_of(node))
    pixels = ops.reshape(x, shape=(*x.shape[:2], product(x.shape[2:])))
    weights = ops.reshape(w, shape=w.shape[:2])
    result: Value = ops.reshape(ops.matmul(weights, pixels), shape=node.result.shape)
    return result


def every_window(x: Value, sliding: Geometry) -> Value:
    """Return the pixels of `x` that windows of single taps read."""
    stride = tuple(axis.stride for axis in sliding)
    if set(stride) == {1}:
        return x
    result: Value = ops.slice(x, start=(0,) * x.rank, stop=x.shape, step=(1, 1, *stride))
    return result


def _in_panels(w: Value, lowering: Schedule, groups: int) -> Value:
    """Return weights in panels of channels; transposed in registers where panels are vectors."""
    width, lanes = lowering.columns, lowering.lanes
    attrs = make_attrs(ops.pack_panels, {"layout": ChannelPanels(width, groups)})
    squares = RegisterTranspose(lanes) if lanes > 1 and width % lanes == 0 else None
    return w.graph.append(ops.pack_panels, (w,), attrs, lowering=squares)[0]


def _lowered(node: Node, lowering: Lowering) -> Value:
    """Return the convolution over its padded input, with weights as the kernel reads them."""
    x, w = node.operands
    sliding, groups = sliding_of(node), node.attribute("groups")
    if isinstance(lowering, Schedule):
        w = _in_panels(w, lowering, groups)
    near = pads_itself(x.shape, sliding, x.dtype.size)
    if not (isinstance(lowering, Windowed) and near):
        x, sliding = padded(x, sliding), undilated(sliding)
    attrs = make_attrs(ops.conv, {**attributes_of(sliding), "groups": groups})
    operands = (x, w)
    return node.result.graph.append(ops.conv, operands, attrs, lowering=lowering)[0]

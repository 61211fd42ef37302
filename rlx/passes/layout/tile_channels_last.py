"""Tiling of channels-last convolutions (NHWC).

    %2 = stored_conv %x, %w {padding = ((1, 1), (1, 1)), channels_last = true}
        ->  %2 = pad %x
            %3 = pack_panels %w {layout = Panels(width = 32)}
            %4 = stored_conv %2, %3 lowering = schedule(rows = 1, across = 14, columns = 32, ...)

Where an element has few channels, those of a row of taps, which are contiguous, are taken as one
longer row of taps: the innermost loop runs over them all. What no tile fits is transposed
to channels in front.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.ir.layout import WinogradPanels
from rlx.ir.lowering import PANELS, ROWS, Schedule, Winograd
from rlx.ir.op import make_attrs
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Planes,
    WindowDimension,
    attributes_of,
    padded_shape,
    three,
    undilated,
)
from rlx.ir.ops.conv_padding import padded
from rlx.ir.ops.stored_conv import planes_of
from rlx.ir.shape import upper
from rlx.ir.winograd import TAPS
from rlx.passes.layout.choices import Choice, Why
from rlx.passes.layout.convolution_loops import convolution_loops
from rlx.passes.layout.convolution_tiles import (
    FEWEST_LANES,
    Vectors,
    cheapest_tile,
    only_pads,
    sliding_of,
)
from rlx.passes.layout.given_schedules import given_schedule
from rlx.passes.layout.pack_operands import in_panels
from rlx.passes.layout.prepared import is_prepared
from rlx.passes.layout.winograd_tiles import (
    WinogradChoice,
    choose_winograd,
    images_of,
    sums_integers,
)
from rlx.passes.rewrites.decompose import expand_formula
from rlx.target import Target

_FEW_CHANNELS = 8
_MOST_POSITIONS = 8
_REGISTERS_BESIDE, _REGISTERS_EACH = 4, 3
"""Registers of a tile: taps and to spare, and for a position its sum and about two elements."""


def choose_channels_last(node: Node, target: Target) -> Choice:
    """Choose the tile of a convolution with channels last."""
    x, w = node.operands
    if is_depthwise(node):
        schedule = _by_channels(node, target)
        return Why.CHANNELS_LAST.because(schedule.lanes, lowering=schedule)
    if x.dtype not in (DType.F32, DType.F64) or node.attribute("groups") != 1:
        return Why.DTYPE.because(x.dtype)
    if not all(isinstance(extent, int) for extent in w.shape):
        return Why.SYMBOLIC_WINDOW.because(w.type)
    given = given_schedule(node, target)
    if given is not None:
        return Why.GIVEN.because(lowering=with_loops(node, given))
    found = transformed(node, target)
    if found is not None:
        step = found.lowering.step
        return Why.TRANSFORMED.because((step + TAPS - 1) ** 2, (TAPS * step) ** 2, found.lowering)
    tile = cheapest_tile(
        planes_of_images(node), upper(w.shape[-1]), Vectors.of(target, x.dtype.size)
    )
    if tile is None:
        return Why.FEW_CHANNELS.because(w.shape[-1], FEWEST_LANES)
    return Why.CONVOLVED.because(lowering=with_loops(node, tile))


def with_loops(node: Node, tile: Schedule) -> Schedule:
    """Return the schedule of a tile with the loops that it leaves open."""
    if tile.order:
        return tile
    x, w = node.operands
    images, outputs = upper(x.shape[0]), upper(w.shape[-1])
    planes = planes_of_images(node)
    return convolution_loops(tile, images, planes, outputs, x.dtype.size, channels_last=True)


def _by_channels(node: Node, target: Target) -> Schedule:
    """Return the schedule of a convolution whose channels are groups: vectors of channels.

    All taps along a row are unrolled, so that each element is loaded once for all that read it.
    """
    x, w = node.operands
    rows, columns = map(upper, three(node.result.shape[1:-1])[1:])
    lanes = min(target.lanes(x.dtype.size), 1 << upper(w.shape[-1]).bit_length() - 1)
    budget = (target.vector_registers - _REGISTERS_BESIDE) // _REGISTERS_EACH
    return Schedule(
        1,
        lanes,
        lanes,
        max(1, min(_MOST_POSITIONS, budget, columns)),
        order=("image", "layer", ROWS, PANELS),
        blocks=max(1, rows),
        right="in_place",
        unroll=upper(w.shape[-3]),
        inner="panels",
        border="in_place",
    )


def is_depthwise(node: Node) -> bool:
    """True if each channel is a group, in images of known extents that are only padded."""
    x, w = node.operands
    if x.dtype not in (DType.F32, DType.F64):
        return False
    known = all(isinstance(extent, int) for extent in (*x.shape[1:], *w.shape))
    alone = x.shape[-1] == w.shape[-1] == node.attribute("groups") and w.shape[-2] == 1
    return known and alone and only_pads(sliding_of(node))


def transformed(node: Node, target: Target) -> WinogradChoice | None:
    """Choose Winograd's convolution where it is faster, and its weights are made in `setup`."""
    x, w = node.operands
    images = images_of(x.shape, w.shape[:-2], w.shape[-1], sliding_of(node), x.dtype.size)
    if images is None or sums_integers(node) or not is_prepared(w):
        return None
    return choose_winograd(images, target)


def lowered_channels_last(node: Node, choice: Choice) -> Value:
    """Return the convolution over its padded input, with weights in panels."""
    tile = choice.lowering
    if isinstance(tile, Winograd):
        return _in_points(node, tile)
    if isinstance(tile, Schedule) and tile.border == "in_place":
        return node.result.graph.append(node.op, node.operands, node.attrs, lowering=tile)[0]
    if not isinstance(tile, Schedule):
        formula = expand_formula(node)
        assert isinstance(formula, Value)  # it is a composite of one result
        return formula
    x, w = node.operands
    sliding = sliding_of(node)
    last = sliding[-1]
    if upper(x.shape[-1]) <= _FEW_CHANNELS and last.dilation == last.input_dilation == 1:
        x, w, sliding = _in_one_row(x, w, sliding)
    else:
        x, sliding = padded(x, sliding, first=1), undilated(sliding)
    panels = in_panels(w, tile.columns, tile.lanes, transposed=False)
    attrs = make_attrs(node.op, {**attributes_of(sliding), "channels_last": True})
    return node.result.graph.append(node.op, (x, panels), attrs, lowering=tile)[0]


def _in_points(node: Node, blocks: Winograd) -> Value:
    """Return Winograd's convolution, with transformed weights in panels."""
    x, w = node.operands
    panels = ops.pack_panels(w, layout=WinogradPanels(blocks.step, blocks.columns))
    return node.result.graph.append(node.op, (x, panels), node.attrs, lowering=blocks)[0]


def _in_one_row(x: Value, w: Value, sliding: Geometry) -> tuple[Value, Value, Geometry]:
    """Take the channels of a row's elements as elements of one channel; the input is padded.

    Rows are padded in one run each, not a few channels at a time.
    """
    channels = upper(x.shape[-1])
    row = ops.reshape(x, shape=(*x.shape[:-2], x.shape[-2] * channels))
    taps = ops.reshape(w, shape=(*w.shape[:-3], w.shape[-3] * channels, 1, w.shape[-1]))
    last = sliding[-1]
    apart = WindowDimension(last.stride * channels, last.low * channels, last.high * channels)
    wide = padded(row, (*sliding[:-1], apart), first=1)
    return ops.reshape(wide, shape=(*wide.shape, 1)), taps, undilated((*sliding[:-1], apart))


def planes_of_images(node: Node) -> Planes:
    """Return the planes of a convolution once its input is padded."""
    x, w = node.operands
    spatial = padded_shape((0, 0, *x.shape[1:-1]), sliding_of(node))[2:]
    return planes_of((*x.shape[:1], *spatial, *x.shape[-1:]), w.shape, undilated(sliding_of(node)))

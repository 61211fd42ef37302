"""The attributes of operators with windows that slide: strides, pads and `auto_pad`."""

from __future__ import annotations

from typing import Any, NamedTuple

from rlx.errors import FormatError
from rlx.ir.ops.conv_geometry import same_padding

Numbers = tuple[int, ...]


class Window(NamedTuple):
    """Geometry per spatial axis."""

    taps: Numbers
    stride: Numbers
    padding: tuple[tuple[int, int], ...]
    dilation: Numbers


def window_of(
    spatial: Any,
    taps: Any,
    *,
    strides: Any,
    pads: Any,
    dilations: Any,
    auto_pad: str,
) -> Window:
    """Return the geometry of a window of `taps` that slides over `spatial` extents."""
    count = len(spatial)
    stride = tuple(strides or (1,) * count)
    dilation = tuple(dilations or (1,) * count)
    window = tuple(taps)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        padding = _same(spatial, window, stride, dilation, upper=auto_pad == "SAME_UPPER")
    elif auto_pad == "VALID" or not pads:
        padding = ((0, 0),) * count
    else:
        if len(pads) != 2 * count:
            raise FormatError(
                f"pads {tuple(pads)} do not fit {count} spatial axes",
                remedy="the model is malformed: export it again",
            )
        padding = tuple(zip(pads[:count], pads[count:], strict=True))
    return Window(window, stride, padding, dilation)


def _same(
    spatial: Any, taps: Numbers, stride: Numbers, dilation: Numbers, *, upper: bool
) -> tuple[tuple[int, int], ...]:
    """Return the padding with which there is a window for every `stride` elements."""
    found = []
    for extent, size, step, apart in zip(spatial, taps, stride, dilation, strict=True):
        less, more = same_padding(extent, size, step, apart)
        found.append((less, more) if upper else (more, less))
    return tuple(found)

"""Changes of operator signatures between opsets.

Translators know the newest form. An attribute that became an input is given to them as that
input; attributes that mean nothing any more are dropped.
"""

from __future__ import annotations

from typing import NamedTuple


class Moved(NamedTuple):
    """Below opset `below`, `attribute` was what is now input number `place`."""

    below: int
    attribute: str
    place: int


_AXES = (Moved(18, "axes", 1),)

MOVED: dict[str, tuple[Moved, ...]] = {
    "Clip": (Moved(11, "min", 1), Moved(11, "max", 2)),
    "Dropout": (Moved(12, "ratio", 1),),
    "Pad": (Moved(2, "paddings", 1), Moved(11, "pads", 1), Moved(11, "value", 2)),
    "ReduceL1": _AXES,
    "ReduceL2": _AXES,
    "ReduceLogSum": _AXES,
    "ReduceLogSumExp": _AXES,
    "ReduceMax": _AXES,
    "ReduceMean": _AXES,
    "ReduceMin": _AXES,
    "ReduceProd": _AXES,
    "ReduceSum": (Moved(13, "axes", 1),),
    "ReduceSumSquare": _AXES,
    "Reshape": (Moved(5, "shape", 1),),
    "Slice": (Moved(10, "starts", 1), Moved(10, "ends", 2), Moved(10, "axes", 3)),
    "Split": (Moved(13, "split", 1),),
    "Squeeze": (Moved(13, "axes", 1),),
    "TopK": (Moved(10, "k", 1),),
    "Unsqueeze": (Moved(13, "axes", 1),),
    "Upsample": (Moved(9, "scales", 1),),
}

DROPPED = frozenset({"consumed_inputs", "is_test"})
"""Hints of the first opset to implementations."""

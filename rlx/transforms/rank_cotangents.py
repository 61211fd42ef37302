"""Cotangents of values that are replicated over ranks of a mesh.

A value that is equal on all ranks of an axis is one variable, of which each rank has a copy. Inside
a pullback each copy is a variable of its own: derivatives of collectives are those of maps between
the arrays of all ranks. Where a pullback begins, the cotangent of such a value is divided among
its copies; where it ends, what the copies have received is summed. Without a mesh nothing is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.shape import Extent, product
from rlx.ir.source_lines import calling_source
from rlx.passes.communication.varying import Axes
from rlx.tracing.axes import equal_axes, varying_axes
from rlx.tracing.trace import element_type


def share(varying: Axes) -> float:
    """Return which part of its cotangent each copy of a value that varies over `varying` gets."""
    return 1 / product(axis.size for axis in equal_axes(varying))


def given(cotangents: Sequence[Any], varying: Sequence[Axes]) -> list[Any]:
    """Return each rank's shares of `cotangents`, which must be as equal as the results are."""
    return [_given(ct, axes) for ct, axes in zip(cotangents, varying, strict=True)]


def _given(cotangent: Any, varying: Axes) -> Any:
    more = varying_axes(cotangent) - varying
    if more:
        names = ", ".join(map(repr, sorted(more)))
        raise InputError(
            f"a cotangent varies over the ranks of {names}, and the result that it belongs to is "
            "equal on all of them",
            source=calling_source(),
            remedy="sum the cotangent with rlx.distributed.psum, or let the function return "
            f"rlx.distributed.pvary(result, {min(more)!r})",
        )
    return _scaled(cotangent, share(varying))


def taken(cotangents: Sequence[Any], varying: Sequence[Axes]) -> list[Any]:
    """Return what `given` would divide into these shares, some of which may be equal anyway."""
    return [_taken(ct, axes) for ct, axes in zip(cotangents, varying, strict=True)]


def _taken(cotangent: Any, varying: Axes) -> Any:
    own = varying_axes(cotangent)
    copies = [axis for axis in equal_axes(varying) if axis.name not in own]
    parts = [axis.name for axis in equal_axes(varying) if axis.name in own]
    if parts:
        from rlx.transforms.collectives import psum  # few programs need it

        cotangent = psum(cotangent, parts)
    return _scaled(cotangent, product(axis.size for axis in copies))


def returned(cotangents: Sequence[Any], varying: Sequence[Axes]) -> list[Any]:
    """Return shares of what a rule gives for arguments; what differs by rank is a share already."""
    return [
        _scaled(ct, share(axes | varying_axes(ct)))
        for ct, axes in zip(cotangents, varying, strict=True)
    ]


def _scaled(cotangent: Any, factor: Extent | float) -> Any:
    if factor == 1 or not element_type(cotangent).dtype.is_differentiable:
        return cotangent
    return rnp.multiply(cotangent, factor)

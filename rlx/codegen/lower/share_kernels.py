"""Sharing of kernels: thunks that differ in extents alone call one kernel, which takes them.

A kernel that one shape alone asks for keeps its extents as literals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import OPEN
from rlx.codegen.schedule import AnyThunk, BranchThunk, LoopThunk, OpenExtents, Schedule, Thunk
from rlx.ir.op import OPS
from rlx.ir.shape import Dim, product
from rlx.ir.types import TensorType

_MOST = 1 << 31
"""Bound of an extent that is an argument; nothing is planned by it."""


def share_kernels(schedule: Schedule) -> Schedule:
    """Open the extents of all thunks that share a kernel then."""
    shapes: defaultdict[tuple[Any, ...], set[tuple[Any, ...]]] = defaultdict(set)

    def note(thunk: Thunk) -> Thunk:
        opened = _opened(thunk)
        if opened is not thunk:
            shapes[opened.kernel_key].add(thunk.kernel_key)
        return thunk

    def choose(thunk: Thunk) -> Thunk:
        opened = _opened(thunk)
        return opened if len(shapes.get(opened.kernel_key, ())) > 1 else thunk

    _mapped(schedule.thunks, note)
    if all(len(users) < 2 for users in shapes.values()):
        return schedule
    return replace(schedule, thunks=_mapped(schedule.thunks, choose))


def _opened(thunk: Thunk) -> Thunk:
    """Return the thunk with its extents open, or as it is."""
    rule = OPEN.get(thunk.kind)
    if rule is None or thunk.aliased or thunk.known or thunk.scratch or len(thunk.operands) != 1:
        return thunk
    type = thunk.operands[0].type
    if not type.is_static or product(type.shape) == 0:
        return thunk
    numbers = rule(type.static_shape, **thunk.attrs.as_dict())
    if numbers is None:
        return thunk
    shape = tuple(Dim(name, max=_MOST, min=1) for name in numbers)
    operands = (TensorType(type.dtype, shape, type.layout),)
    results = OPS[thunk.kind].infer_types(operands, thunk.attrs)
    work = is_large(type.elements)
    return replace(thunk, opened=OpenExtents(operands, results, work, tuple(numbers.items())))


def _mapped(thunks: tuple[AnyThunk, ...], change: Callable[[Thunk], Thunk]) -> tuple[AnyThunk, ...]:
    return tuple(_changed(thunk, change) for thunk in thunks)


def _changed(thunk: AnyThunk, change: Callable[[Thunk], Thunk]) -> AnyThunk:
    match thunk:
        case Thunk():
            return change(thunk)
        case LoopThunk():
            condition, body = _mapped(thunk.condition, change), _mapped(thunk.body, change)
            return replace(thunk, condition=condition, body=body)
        case BranchThunk():
            return replace(thunk, branches=tuple(_mapped(b, change) for b in thunk.branches))

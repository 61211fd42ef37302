"""Movement ops inside a fused body: they only change where their operand is read.

A rule takes the position at which the result is read and returns the position at which the
operand is: indices stay affine. A reshape is affine where every operand axis is kept, merged
from result axes or of extent 1; fusion must not form the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rlx.codegen.kernels.affine import Index, Position, zero
from rlx.errors import InternalError
from rlx.ir.graph import Node
from rlx.ir.shape import Extent, Shape, normalize_axis


@dataclass(frozen=True, slots=True)
class Move:
    """A movement's result, read at `position`, and the shapes on both sides."""

    position: Position
    source: Shape
    result: Shape
    rank: int
    """Of the iteration space; the position of a scalar does not show it."""


MovementRule: TypeAlias = Callable[..., Position]

ONE: Extent = 1

MOVEMENTS: dict[str, MovementRule] = {}
"""Op name -> rule `(move, **attributes) -> position of the operand`."""


def moves(name: str) -> Callable[[MovementRule], MovementRule]:
    """Register the rule of one movement op."""

    def register(rule: MovementRule) -> MovementRule:
        MOVEMENTS[name] = rule
        return rule

    return register


def operand_position(node: Node, operand: int, position: Position, rank: int) -> Position:
    """Return where `node` reads its operand when its result is read at `position`.

    `rank` is the rank of the iteration space. Elementwise ops broadcast: axes are aligned on
    the right, and an operand's axes of extent 1 are read at 0.
    """
    source, result = node.operands[operand].shape, node.results[0].shape
    rule = MOVEMENTS.get(node.op.name)
    if rule is None:
        return broadcast_position(position, source, rank)
    return rule(Move(position, source, result, rank), **node.attrs.as_dict())


def broadcast_position(position: Position, source: Shape, rank: int) -> Position:
    """Return the position of a value that broadcasts to the shape read at `position`."""
    aligned = position[len(position) - len(source) :]
    return tuple(
        zero(rank) if extent == 1 else index for index, extent in zip(aligned, source, strict=True)
    )


@moves("expand")
def expand_position(move: Move, **_: Any) -> Position:
    return broadcast_position(move.position, move.source, move.rank)


@moves("transpose")
def transpose_position(move: Move, *, perm: tuple[int, ...]) -> Position:
    rank = len(perm)
    found = {normalize_axis(axis, rank): move.position[i] for i, axis in enumerate(perm)}
    return tuple(found[axis] for axis in range(rank))


@moves("narrow")
def narrow_position(move: Move, *, axis: int, start: Extent, **_: Any) -> Position:
    axis = normalize_axis(axis, len(move.source))
    here = move.position
    return (*here[:axis], here[axis].shifted(start), *here[axis + 1 :])


@moves("slice")
def slice_position(
    move: Move, *, start: tuple[int, ...], step: tuple[int, ...], **_: Any
) -> Position:
    return tuple(
        index.scaled(stride).shifted(first)
        for index, first, stride in zip(move.position, start, step, strict=True)
    )


@moves("reverse")
def reverse_position(move: Move, *, axes: tuple[int, ...]) -> Position:
    flipped = {normalize_axis(axis, len(move.source)) for axis in axes}
    return tuple(
        index.scaled(-1).shifted(move.source[axis] - 1) if axis in flipped else index
        for axis, index in enumerate(move.position)
    )


@moves("reshape")
def reshape_position(move: Move, **_: Any) -> Position:
    found: list[Index] = []
    taken = 0
    for extent in move.source:
        merged, covered = zero(move.rank), ONE
        while covered != extent:
            if taken == len(move.result):
                raise InternalError(
                    f"reshape {move.source} -> {move.result} splits an axis in a fused body"
                )
            merged = merged.scaled(move.result[taken]).plus(move.position[taken])
            covered = covered * move.result[taken]
            taken += 1
        found.append(merged)
    return tuple(found)

"""Helpers of all blocks: scopes, error messages, checks of operands."""

from __future__ import annotations

from types import TracebackType

from rlx.errors import DTypeError, GraphError, RlxError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OPS, Trait
from rlx.ir.shape import Extent, format_shape
from rlx.ir.source_lines import calling_source


class Block:
    """Context manager in which a block builds its nodes: their scope, and the name in its errors.

    Nodes get the block's scope, `name` or else its kind; errors get its kind in front and the
    user's line. A class, because the frames of `contextlib` would pass for the user's.
    """

    def __init__(self, graph: Graph, kind: str, name: str | None) -> None:
        self._kind = kind
        self._scope = graph.scope(name or kind)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._scope.__exit__(None, None, None)
        if isinstance(error, RlxError):
            raise error.located(self._kind, calling_source()) from error


def require_shape(operand: str, value: Value, expected: tuple[Extent | None, ...]) -> None:
    """Raise ShapeError unless a value has a shape; None means any extent."""
    fits = value.rank == len(expected) and all(
        wanted is None or wanted == extent
        for wanted, extent in zip(expected, value.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if extent is None else str(extent) for extent in expected)
        raise ShapeError(
            f"{operand} has shape {format_shape(value.shape)}; it must be ({wanted})",
            remedy="reshape or slice it to that shape",
        )


def require_hidden(operand: str, value: Value, ranks: tuple[int, ...] = (2, 3)) -> Extent:
    """Return H of hidden states `[S, H]` or `[B, S, H]`; ShapeError for another rank."""
    if value.rank not in ranks:
        listed = " or ".join(map(str, ranks))
        raise ShapeError(
            f"{operand} has shape {format_shape(value.shape)}; its rank must be {listed}",
            remedy="add or drop axes with reshape",
        )
    if not value.dtype.is_float:
        raise DTypeError(
            f"{operand} has dtype {value.dtype}; it must be a float",
            remedy="convert it with cast",
        )
    return value.shape[-1]


def require_all_or_none(what: str, **values: Value | None) -> bool:
    """Say whether `what` is given; a GraphError if only some of it is."""
    missing = [name for name, value in values.items() if value is None]
    if missing and len(missing) < len(values):
        raise GraphError(
            f"{', '.join(missing)} missing: either all {what} are given or none",
            remedy=f"give {', '.join(values)} or leave all of them out",
        )
    return not missing


def activated(x: Value, activation: str | None) -> Value:
    """Apply an elementwise op of one operand by name."""
    if activation is None:
        return x
    definition = OPS.get(activation)
    usable = definition is not None and len(definition.operands) == 1
    if definition is None or not usable or not definition.has(Trait.ELEMENTWISE):
        raise GraphError(
            f"{activation!r} is not an activation",
            remedy="name an elementwise op of one operand, such as relu, gelu or silu",
        )
    result: Value = definition(x)
    return result

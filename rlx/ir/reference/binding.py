"""Values of symbolic extents, read off the shapes of the arrays given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlx.errors import InputError
from rlx.ir.shape import Dim, Extent, Shape, Symbol, bind_symbol, evaluate, format_shape


def bind_extents(
    declared: Mapping[str, Shape], given: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Return symbol name -> extent; InputError where a given shape does not fit its declaration.

    A symbol gets its value where it is alone, or where it is the only unknown of a linear
    extent such as `2*n+1`.
    """
    for name, shape in declared.items():
        if len(shape) != len(given[name]):
            raise InputError(
                f"{name!r} has shape {given[name]}; it must be {format_shape(shape)}, "
                f"of rank {len(shape)}",
                remedy="add or drop axes of the array",
            )
    binding: dict[str, int] = {}
    pairs = list(_pairs(declared, given))
    while any(bind_symbol(extent, size, binding) for extent, size in pairs):
        pass  # each success leaves one unknown fewer in the other extents
    for name, shape in declared.items():
        _check(name, shape, given[name], binding)
    return binding


def _pairs(
    declared: Mapping[str, Shape], given: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[Dim, int]]:
    for name, shape in declared.items():
        for extent, size in zip(shape, given[name], strict=True):
            if isinstance(extent, Dim):
                yield extent, size


def _check(name: str, shape: Shape, given: tuple[int, ...], binding: Mapping[str, int]) -> None:
    for symbol in {s for extent in shape if isinstance(extent, Dim) for s in extent.symbols}:
        _check_symbol(name, symbol, binding)
    expected = tuple(evaluate(extent, binding) for extent in shape)
    if expected != given:
        described = ", ".join(f"{key} = {value}" for key, value in sorted(binding.items()))
        where = f" with {described}" if any(map(_is_symbolic, shape)) else ""
        raise InputError(
            f"{name!r} has shape {given}; it must be {format_shape(shape)}{where}",
            remedy="reshape or slice the array to that shape",
        )


def _check_symbol(name: str, symbol: Symbol, binding: Mapping[str, int]) -> None:
    if symbol.name not in binding:
        raise InputError(
            f"{name!r}: the extents given do not determine {symbol.name}",
            remedy=f"declare an input with {symbol.name} alone as an extent",
        )
    value = binding[symbol.name]
    if value < symbol.min or (symbol.max is not None and value > symbol.max):
        bound = "unbounded" if symbol.max is None else symbol.max
        raise InputError(
            f"{name!r} sets {symbol.name} = {value}; it must be in [{symbol.min}, {bound}]",
            remedy="give an array within the bounds, or declare a larger rlx.Dim",
        )


def _is_symbolic(extent: Extent) -> bool:
    return isinstance(extent, Dim)

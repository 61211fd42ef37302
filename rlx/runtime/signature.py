"""Signature of a compiled graph, and the checks of arrays at call time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir.from_python import array_from, converted
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim, Extent, Symbol, bind_symbol, evaluate, symbols_of
from rlx.ir.types import TensorType
from rlx.runtime.arrays import ARRAY_CLASSES

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Argument:
    """A named input or param."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and params in declaration order, result types, symbols sorted by name."""

    name: str
    inputs: tuple[Argument, ...]
    params: tuple[Argument, ...]
    outputs: tuple[TensorType, ...]
    symbols: tuple[Symbol, ...]

    @staticmethod
    def of(graph: Graph) -> Signature:
        return Signature(
            name=graph.name,
            inputs=tuple(map(_argument, graph.inputs)),
            params=tuple(map(_argument, graph.params)),
            outputs=tuple(output.type for output in graph.outputs),
            symbols=graph.symbols,
        )

    def arrange(self, positional: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the given inputs in declaration order; each must be given once."""
        if not isinstance(named, Mapping):
            raise InputError(
                f"{self.name}: inputs are a {type(named).__name__}; they must be a mapping from "
                "names to arrays",
                remedy=self._takes(),
            )
        if positional or len(named) != len(self.inputs):
            return self._arrange_mixed(positional, named)
        try:
            return [named[argument.name] for argument in self.inputs]
        except KeyError:
            return self._arrange_mixed(positional, named)

    def _arrange_mixed(self, positional: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        if len(positional) > len(self.inputs):
            raise InputError(
                f"{self.name} takes {len(self.inputs)} inputs and was given {len(positional)}",
                remedy=f"pass one array for each: {', '.join(a.name for a in self.inputs)}",
            )
        given = {a.name: x for a, x in zip(self.inputs, positional, strict=False)}
        for name, value in named.items():
            if name in given:
                raise InputError(
                    f"{self.name}: input {name!r} is given twice",
                    remedy="pass it once, by position or by name",
                )
            given[name] = value
        missing = [argument.name for argument in self.inputs if argument.name not in given]
        unknown = [name for name in given if all(name != a.name for a in self.inputs)]
        if missing or unknown:
            raise InputError(self._names_message(missing, unknown), remedy=self._takes())
        return [given[argument.name] for argument in self.inputs]

    def param(self, name: str) -> Argument:
        for argument in self.params:
            if argument.name == name:
                return argument
        known = ", ".join(repr(argument.name) for argument in self.params) or "none"
        raise InputError(f"{self.name} has no param {name!r}", remedy=f"its params are: {known}")

    def bind(self, arrays: Sequence[Array]) -> dict[str, int]:
        """Return the extent of every symbol, as the shapes of the inputs say."""
        binding: dict[str, int] = {}
        given = [
            (argument, axis, extent, array.shape[axis])
            for argument, array in zip(self.inputs, arrays, strict=True)
            for axis, extent in enumerate(argument.type.shape)
            if isinstance(extent, Dim)
        ]
        while any(bind_symbol(extent, count, binding) for _, _, extent, count in given):
            pass  # each success leaves one unknown fewer in the other extents
        for argument, axis, extent, count in given:  # now that all is known that can be
            _check_extent(binding, argument, axis, extent, count)
        for symbol in self.symbols:
            self._check_symbol(symbol, binding)
        return binding

    def _check_symbol(self, symbol: Symbol, binding: Mapping[str, int]) -> None:
        if symbol.name not in binding:
            raise InputError(
                f"{self.name}: no input's shape determines extent {symbol.name}",
                remedy="give some input an axis of that extent alone",
            )
        value = binding[symbol.name]
        if value < symbol.min or (symbol.max is not None and value > symbol.max):
            raise InputError(
                f"{self.name}: extent {symbol.name} = {value} is outside its bounds "
                f"[{symbol.min}, {symbol.max}]",
                remedy="give an array within the bounds, or declare a larger rlx.Dim",
            )

    def _names_message(self, missing: Sequence[str], unknown: Sequence[str]) -> str:
        parts = []
        if missing:
            parts.append(f"missing {', '.join(map(repr, missing))}")
        if unknown:
            parts.append(f"unknown {', '.join(map(repr, unknown))}")
        return f"{self.name}: inputs {' and '.join(parts)}"

    def _takes(self) -> str:
        return "it takes: " + (", ".join(f"{a.name}: {a.type}" for a in self.inputs) or "nothing")


def checked(argument: Argument, value: Any, *, what: str = "input") -> Array:
    """Return `value` as an array of the argument's dtype and rank; its extents where static.

    Arrays are taken as they are, whatever their strides; a dtype is never converted silently.
    Python numbers and lists become arrays of the argument's dtype, if that can hold them.
    """
    array = value if type(value) in ARRAY_CLASSES else _as_array(argument, value, what)
    wanted = argument.type
    if array.dtype != wanted.dtype.numpy:
        raise InputError(
            f"{what} {argument.name!r} has dtype {array.dtype}; it must be {wanted.dtype}",
            remedy=f"convert it with .astype({wanted.dtype.numpy.name!r})",
        )
    fits = len(array.shape) == wanted.rank and all(
        isinstance(extent, Dim) or extent == given
        for extent, given in zip(wanted.shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(
            f"{what} {argument.name!r} has shape {array.shape}; "
            f"it must be {wanted.describe_shape()}",
            remedy="reshape or slice the array to that shape",
        )
    return array


def concrete(shape: Sequence[Extent], binding: Mapping[str, int]) -> tuple[int, ...]:
    """Return a shape at a binding of its symbols."""
    return tuple(evaluate(extent, binding) for extent in shape)


def named_params(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return what `params=` was given; it maps names to arrays."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise InputError(
            f"params= is a {type(params).__name__}; it must be a mapping from names to arrays",
            remedy="pass a dict, as in {'w': array}",
        )
    return params


def require_carried(graph: Graph) -> None:
    """Raise ShapeError if an extent has a symbol that no call could give a value."""
    carried = set(graph.symbols)
    for node in graph.nodes:
        for result in node.results:
            for symbol in symbols_of(result.shape):
                if symbol not in carried:
                    raise ShapeError(
                        f"{node.op.name}: no input has the extent {symbol.name} of {result.type}",
                        source=node.source,
                        remedy=f"add an input with an axis of {symbol.name}, or bind the symbol",
                    )


def _argument(leaf: Value) -> Argument:
    return Argument(str(leaf.node.name), leaf.type)


def _as_array(argument: Argument, value: Any, what: str) -> Array:
    try:
        if isinstance(value, np.generic) or not isinstance(value, _PYTHON):
            return array_from(value)
        return converted(value, argument.type.dtype)
    except (DTypeError, InputError, ShapeError) as error:
        raise InputError(
            f"{what} {argument.name!r} of type {type(value).__name__} is not an array of type "
            f"{argument.type}: {error.message}",
            remedy=error.remedy,
        ) from None


_PYTHON = (int, float, complex, list, tuple, range)
"""What becomes an array of the dtype that is asked for; all else must have that dtype."""


def _check_extent(
    binding: Mapping[str, int], argument: Argument, axis: int, extent: Dim, given: int
) -> None:
    """Raise InputError if the symbols, where all are known, ask for another extent."""
    if not all(symbol.name in binding for symbol in extent.symbols):
        return
    expected = extent.evaluate(binding)
    if expected != given:
        raise InputError(
            f"input {argument.name!r} has extent {given} on axis {axis}; it must be "
            f"{extent} = {expected} ({_shown(extent, binding)})",
            remedy="give the axes that share an extent the same size",
        )


def _shown(extent: Dim, binding: Mapping[str, int]) -> str:
    return ", ".join(f"{symbol.name} = {binding[symbol.name]}" for symbol in extent.symbols)

"""The interface of an executable: inputs, params, outputs and symbols.

A graph of a thousand nodes takes a while to build, and a program from the cache runs without it.
So a graph whose name determines it is given by its builder, and it is built only where
no program of that name is kept, or where it is inspected:

    NamedGraph("step of 3f9a...", lambda: decoder_graph(...))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim, Extent, Symbol
from rlx.ir.types import TensorType
from rlx.runtime.signature import Argument, Signature


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """A graph that can be built; equal names mean equal graphs."""

    name: str
    """A digest of all that the graph depends on, but for the code of this package."""
    build: Callable[[], Graph]
    takes_all_extents: bool = False
    """True if its builder checked that every op takes all extents within the bounds."""


@dataclass(frozen=True, slots=True)
class Interface:
    """Inputs, outputs and donations of a program."""

    signature: Signature
    donations: Mapping[str, int]

    @staticmethod
    def of(graph: Graph) -> Interface:
        return Interface(Signature.of(graph), dict(graph.donations))


@dataclass(frozen=True, slots=True)
class Origin:
    """The interface of a graph, and the graph once it is needed."""

    interface: Interface
    build: Callable[[], Graph]
    """Gives the same graph every time."""
    takes_all_extents: bool = False

    @staticmethod
    def of(graph: Graph) -> Origin:
        return Origin(Interface.of(graph), lambda: graph)

    @property
    def graph(self) -> Graph:
        return self.build()

    @property
    def signature(self) -> Signature:
        return self.interface.signature

    @property
    def donations(self) -> Mapping[str, int]:
        return self.interface.donations


def interface_fields(interface: Interface) -> dict[str, Any] | None:
    """Return an interface as JSON holds it; None for one with extents such as `n + 1`."""
    signature = interface.signature
    arguments = (*signature.inputs, *signature.params)
    types = [*(argument.type for argument in arguments), *signature.outputs]
    extents = [extent for type in types for extent in type.shape]
    if any(type.layout is not None for type in types):
        return None
    if any(isinstance(extent, Dim) and _symbol(extent) is None for extent in extents):
        return None
    return {
        "name": signature.name,
        "inputs": [[argument.name, _type_fields(argument.type)] for argument in signature.inputs],
        "params": [[argument.name, _type_fields(argument.type)] for argument in signature.params],
        "outputs": [_type_fields(type) for type in signature.outputs],
        "symbols": [[symbol.name, symbol.max, symbol.min] for symbol in signature.symbols],
        "donations": dict(interface.donations),
    }


def interface_of(fields: Any) -> Interface:
    """Return what `interface_fields` was given; KeyError, TypeError or ValueError for no such."""
    signature = Signature(
        name=fields["name"],
        inputs=tuple(Argument(name, _type(type)) for name, type in fields["inputs"]),
        params=tuple(Argument(name, _type(type)) for name, type in fields["params"]),
        outputs=tuple(map(_type, fields["outputs"])),
        symbols=tuple(Symbol(*values) for values in fields["symbols"]),
    )
    return Interface(signature, dict(fields["donations"]))


def _symbol(extent: Dim) -> Symbol | None:
    """Return the symbol that an extent is; None if it is more."""
    symbol = extent.symbols[0] if len(extent.symbols) == 1 else None
    if symbol is None or extent != Dim(symbol.name, max=symbol.max, min=symbol.min):
        return None
    return symbol


def _type_fields(type: TensorType) -> list[Any]:
    return [type.dtype.value, [_extent_fields(extent) for extent in type.shape]]


def _extent_fields(extent: Extent) -> Any:
    if isinstance(extent, int):
        return extent
    (symbol,) = extent.symbols
    return [symbol.name, symbol.max, symbol.min]


def _type(fields: Any) -> TensorType:
    dtype, shape = fields
    return TensorType(DType(dtype), tuple(map(_extent, shape)))


def _extent(fields: Any) -> Extent:
    if isinstance(fields, int):
        return fields
    name, most, least = fields
    return Dim(name, max=most, min=least)

"""Buckets: one compiled program for a range of sizes, where arrays come in many.

    n = rlx.Buckets("n", (64, 256, 1024))
    f = rlx.jit(fun, buckets={"tokens": {0: n}, "mask": {0: n}})

A program of a bucket is compiled for a symbolic extent, bounded by the bucket: results are those
of the exact size, nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Self

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir.shape import Dim, Extent, Shape
from rlx.ir.source_lines import calling_source

Axes = Mapping[int, "Buckets"]


@dataclass(frozen=True, slots=True)
class Buckets:
    """The sizes of one extent at which programs are compiled; each serves all sizes up to its own.

    Axes that share a `Buckets` have the same extent, in one argument or in several.
    """

    name: str
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = tuple(self.sizes)
        whole = all(isinstance(size, int) for size in sizes)
        rising = whole and all(a < b for a, b in pairwise((0, *sizes)))
        if not sizes or not rising:
            raise InputError(
                f"buckets {self.name!r} have sizes {sizes}; "
                "they must be positive integers that rise",
                source=calling_source(),
                remedy="list each bucket's largest size, as in (64, 256, 1024)",
            )
        Dim(self.name, max=sizes[-1])  # checks the name
        object.__setattr__(self, "sizes", sizes)

    @classmethod
    def powers_of_two(cls, name: str, *, max: int, min: int = 1) -> Self:
        """Return buckets whose sizes double, from `min` to the first that is `max` or more."""
        sizes = [min]
        while 0 < sizes[-1] < max:
            sizes.append(2 * sizes[-1])
        return cls(name, tuple(sizes))

    def dim(self, extent: int, argument: str) -> Dim:
        """Return the symbolic extent of the bucket that `extent` falls into."""
        for below, size in pairwise((-1, *self.sizes)):
            if extent <= size:
                return Dim(self.name, min=below + 1, max=size)
        raise InputError(
            f"argument {argument!r} has extent {extent}, above the largest bucket of "
            f"{self.name!r}: {self.sizes[-1]}",
            source=calling_source(),
            remedy="add a larger bucket",
        )


def symbolic_shapes(shapes: Iterable[tuple[str, Shape]], tables: Mapping[str, Axes]) -> list[Shape]:
    """Return the shapes of named arguments, symbolic where `tables` has buckets for their axes."""
    symbolic = []
    extents: dict[str, tuple[str, int]] = {}
    for argument, shape in shapes:
        axes = tables.get(argument, {})
        symbolic.append(symbolic_shape(shape, axes, argument))
        for axis, buckets in axes.items():
            _require_one_extent(extents, buckets.name, argument, shape[axis])
    return symbolic


def _require_one_extent(
    extents: dict[str, tuple[str, int]], name: str, argument: str, extent: Extent
) -> None:
    """Raise InputError if an axis of the same buckets had another extent."""
    if not isinstance(extent, int):
        return
    other, first = extents.setdefault(name, (argument, extent))
    if first != extent:
        raise InputError(
            f"argument {argument!r} has extent {extent} and {other!r} has {first}, on axes that "
            f"share the buckets {name!r}",
            source=calling_source(),
            remedy="pass arrays of one extent, or give the axes buckets of other names",
        )


def symbolic_shape(shape: Shape, axes: Axes, argument: str) -> Shape:
    """Return `shape` with the extents of `axes` as symbols, each bounded by its bucket."""
    extents: list[Extent] = list(shape)
    for axis, buckets in axes.items():
        if not -len(shape) <= axis < len(shape):
            raise InputError(
                f"argument {argument!r} has shape {tuple(shape)}, without axis {axis}, which "
                f"buckets {buckets.name!r} name",
                source=calling_source(),
                remedy="name an axis that the argument has",
            )
        extent = extents[axis]
        extents[axis] = buckets.dim(extent, argument) if isinstance(extent, int) else extent
    return tuple(extents)


def checked_buckets(given: Mapping[str, Axes] | None) -> dict[str, Axes]:
    """Return what `buckets=` was given, if it maps arguments to axes to `Buckets`."""
    tables: dict[str, Axes] = dict(given or {})
    for argument, axes in tables.items():
        if not isinstance(axes, Mapping) or not all(_is_entry(*item) for item in axes.items()):
            raise InputError(
                f"buckets of argument {argument!r} are {axes!r}; they map axes to rlx.Buckets",
                source=calling_source(),
                remedy=f'write buckets={{"{argument}": {{0: rlx.Buckets("n", (64, 256))}}}}',
            )
    return tables


def _is_entry(axis: Any, buckets: Any) -> bool:
    return isinstance(axis, int) and isinstance(buckets, Buckets)

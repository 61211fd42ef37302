"""How arrays are split over the axes of a mesh, and arrays that are."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.distributed.mesh import Mesh
from rlx.errors import InputError, ShapeError
from rlx.ir.source_lines import calling_source

Array = np.ndarray[Any, Any]


class P(tuple[str | None, ...]):
    """Which axis of the mesh splits each axis of an array; `P()` is the same on all ranks.

    `P("data")` splits the leading axis, `P(None, "model")` the second one.
    """

    __slots__ = ()

    def __new__(cls, *names: str | None) -> P:
        twice = [name for name in names if name is not None and names.count(name) > 1]
        if twice:
            raise InputError(
                f"P names {twice[0]!r} twice; one axis of a mesh splits one axis of an array",
                source=calling_source(),
                remedy="put None where the array is not split",
            )
        return super().__new__(cls, names)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self))})"


@dataclass(frozen=True, slots=True)
class Sharded:
    """The part of an array that this rank has."""

    local: Array
    spec: P
    mesh: Mesh

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole array."""
        sizes = [1 if name is None else self.mesh.axis(name).size for name in self.spec]
        sizes += [1] * (self.local.ndim - len(sizes))
        return tuple(e * size for e, size in zip(self.local.shape, sizes, strict=True))

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.local.dtype

    def gather(self) -> Array:
        """Return the whole array, on every rank; all ranks must call it."""
        whole = np.empty(self.shape, self.local.dtype)
        places = tuple(0 if name is None else self.mesh.axis(name).index for name in self.spec)
        gather = self.mesh.world.connection.gather
        for places_there, part in gather((places, self.local), "an array is gathered"):
            whole[_box(part.shape, places_there)] = part
        return whole


def local_part(name: str, x: Array, spec: P, mesh: Mesh) -> Array:
    """Return the part of `x` that this rank has; ShapeError where parts would be uneven."""
    require_axes(name, x, spec)
    shape, places = list(x.shape), []
    for place, axis_name in enumerate(spec):
        axis = None if axis_name is None else mesh.axis(axis_name)
        if axis is not None and shape[place] % axis.size:
            raise ShapeError(
                f"{name} has extent {shape[place]} at axis {place}, which {axis.size} ranks "
                f"along {axis.name!r} do not divide",
                remedy="pad it to a multiple, or use another number of ranks",
            )
        shape[place] //= 1 if axis is None else axis.size
        places.append(0 if axis is None else axis.index)
    return np.require(x[_box(tuple(shape), tuple(places))], requirements="C")


def require_axes(name: str, x: Array, spec: P) -> None:
    """Raise ShapeError where `spec` names more axes than `x` has."""
    if len(spec) > x.ndim:
        raise ShapeError(
            f"{name} has shape {x.shape}, and {spec} names {len(spec)} axes",
            source=calling_source(),
            remedy="name at most as many axes as the array has",
        )


def _box(shape: tuple[int, ...], places: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(p * e, (p + 1) * e) for p, e in zip(places, shape, strict=False))

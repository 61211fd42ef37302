"""`jax.sharding`: meshes and placements as programs write them; all of it is the one device.

Meshes of several devices are refused: ranks that exchange are those of `rlx.distributed`.
"""

from __future__ import annotations

import enum
import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import rlx
from rlx.dataclass import dataclass
from rlx.errors import UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.jax.devices import THE_DEVICE, Device
from rlx.public_names import names_of as _names_of


class AxisType(enum.Enum):
    """How an axis of a mesh is used; none differs on one device."""

    Auto, Explicit, Manual = "auto", "explicit", "manual"


class PartitionSpec(tuple[Any, ...]):
    """The axes of a mesh over which the axes of an array are spread."""

    __slots__ = ()

    def __new__(cls, *partitions: Any, **_: Any) -> PartitionSpec:
        """Take names of axes, tuples of them, or None for each axis of an array."""
        return super().__new__(cls, partitions)

    def __repr__(self) -> str:
        return f"PartitionSpec{tuple(self)!r}"


rlx.register_pytree_node(PartitionSpec, lambda x: ((), x), lambda x, _: x)


class Mesh:
    """Devices along named axes."""

    def __init__(
        self, devices: Any, axis_names: str | Sequence[str], axis_types: Any = None, **_: Any
    ) -> None:
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self.devices = np.asarray(devices, dtype=object).reshape(np.shape(devices))
        self.axis_names, self.axis_types = names, axis_types
        _require_one(self.devices.shape)

    @property
    def shape(self) -> OrderedDict[str, int]:
        return OrderedDict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def size(self) -> int:
        return self.devices.size

    @property
    def empty(self) -> bool:
        return not self.devices.ndim

    def __enter__(self) -> Mesh:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _require_one(shape: Sequence[int]) -> None:
    if math.prod(shape) != 1:
        raise UnsupportedError(
            f"a mesh of {math.prod(shape)} devices, of shape {tuple(shape)}; there is one device",
            source=calling_source(),
            remedy="use jax.device_count() for its extent, or rlx.distributed for several ranks",
        )


@dataclass(frozen=True)
class Sharding:
    """Placement of an array: on the one device."""

    @property
    def device_set(self) -> set[Device]:
        return {THE_DEVICE}

    @property
    def is_fully_replicated(self) -> bool:
        return True

    @property
    def is_fully_addressable(self) -> bool:
        return True


@dataclass(frozen=True)
class NamedSharding(Sharding):
    """A mesh, and the axes of it over which an array is spread."""

    mesh: Any = None
    spec: Any = ()


@dataclass(frozen=True)
class SingleDeviceSharding(Sharding):
    """One device."""

    device: Any = THE_DEVICE


def make_mesh(
    axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None, **_: Any
) -> Mesh:
    """A mesh of the one device."""
    _require_one(axis_shapes)
    devices = np.full(tuple(axis_shapes), THE_DEVICE, object)
    return Mesh(devices, axis_names, axis_types)


@contextmanager
def set_mesh(mesh: Any) -> Iterator[Any]:
    """Name a mesh for what is inside."""
    yield mesh


use_mesh = set_mesh


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """`x`: there is one device."""
    del shardings
    return x


reshard = with_sharding_constraint


def shard_map(
    f: Callable[..., Any] | None = None, mesh: Any = None, in_specs: Any = None,
    out_specs: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """`f` on the one part that the whole arrays are; collectives name the axes of `mesh`."""
    if f is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    names = mesh.axis_names if mesh is not None else tuple(options.get("axis_names", ()))
    inner = f
    for name in reversed(names):
        inner = _alone(inner, name)
    return functools.wraps(f)(inner)


def _alone(f: Callable[..., Any], axis_name: str) -> Callable[..., Any]:
    """Return `f` as the only member of an axis."""

    def alone(*args: Any) -> Any:
        one = rlx.vmap(lambda: f(*args), axis_name=axis_name, axis_size=1)
        return rlx.tree_map(lambda x: x[0], one())

    return alone


def pmap(
    fun: Callable[..., Any], axis_name: str | None = None, *, in_axes: Any = 0, out_axes: Any = 0,
    static_broadcasted_argnums: Any = (), axis_size: int | None = None, **_: Any,
) -> Any:  # fmt: skip
    """`fun` over an axis: of one part for each device, of any extent here; compiled."""
    static = static_broadcasted_argnums
    static = (static,) if isinstance(static, int) else tuple(static)

    def over(*args: Any) -> Any:
        axes = tuple(in_axes) if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        rest = [place for place in range(len(args)) if place not in static]

        def member(*given: Any) -> Any:
            known = dict(zip(rest, given, strict=True))
            return fun(*[known.get(place, arg) for place, arg in enumerate(args)])

        mapped = rlx.vmap(member, tuple(axes[place] for place in rest), out_axes, axis_name,
                          axis_size)  # fmt: skip
        return mapped(*[args[place] for place in rest])

    return rlx.jit(functools.wraps(fun)(over), static_argnums=static)


__dir__ = _names_of(__name__)

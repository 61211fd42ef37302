"""The rule of `shard_map`: its axes are those of batches, one for each axis of the mesh."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.jaxpr.internals import JaxprEqn, closed_over, manual_axes, sharded_axes, user_source
from rlx.jaxpr.interpret import rule, run
from rlx.numpy.axes import static_shape
from rlx.transforms.batch import vmap

Sharding = tuple[tuple[str, ...], ...]
"""The axes of the mesh along which each axis of an array is cut, the outer one first."""


@rule("shard_map")
def shard_map(equation: JaxprEqn, *operands: Any) -> Any:
    """The function of all shards at once; its collectives are those of the batch axes.

    Results that are replicated are those of the first shard.
    """
    sizes = manual_axes(equation)
    ins, outs = sharded_axes(equation)
    if not sizes:
        raise UnsupportedError(
            "from_jax: shard_map over no axis of its mesh", source=user_source(equation),
            remedy="name the axes of the mesh in the specs",
        )  # fmt: skip
    body = closed_over(equation.params["jaxpr"])
    function: Callable[..., Any] = lambda *xs: tuple(run(body, xs))  # noqa: E731
    for name in reversed(sizes):
        axes = tuple(0 if name in _names(spec) else None for spec in ins)
        function = vmap(function, axes, axis_name=name, axis_size=sizes[name])
    pairs = zip(operands, ins, strict=True)
    results = function(*(_cut(x, spec, sizes) for x, spec in pairs))
    return [_joined(x, spec, sizes) for x, spec in zip(results, outs, strict=True)]


def _names(spec: Sharding) -> list[str]:
    return [name for names in spec for name in names]


def _cut(x: Any, spec: Sharding, sizes: dict[str, int]) -> Any:
    """Return the shards of an array, along leading axes in the order of the mesh."""
    shape: list[int] = []
    places: dict[str, int] = {}
    own: list[int] = []
    for extent, names in zip(static_shape(x), spec, strict=True):
        for name in names:
            places[name] = len(shape)
            shape.append(sizes[name])
        own.append(len(shape))
        shape.append(extent // math.prod(sizes[name] for name in names))
    order = [places[name] for name in sizes if name in places]
    return rnp.transpose(rnp.reshape(x, tuple(shape)), (*order, *own))


def _joined(x: Any, spec: Sharding, sizes: dict[str, int]) -> Any:
    """Return the array of the shards of a result, which has an axis for each of the mesh."""
    given = _names(spec)
    x = functools.reduce(
        lambda x, place: rnp.take(x, 0, axis=place),
        [place for place, name in reversed(list(enumerate(sizes))) if name not in given],
        x,
    )
    places = {name: i for i, name in enumerate(name for name in sizes if name in given)}
    local = static_shape(x)[len(places) :]
    order: list[int] = []
    shape: list[int] = []
    for axis, names in enumerate(spec):
        order += [places[name] for name in names] + [len(places) + axis]
        shape.append(local[axis] * math.prod(sizes[name] for name in names))
    return rnp.reshape(rnp.transpose(x, tuple(order)), tuple(shape))

"""`vectorize`: a function of single examples over all leading axes, as NumPy broadcasts them.

inner = rlx.vectorize(rnp.dot, signature="(n),(n)->()")
inner(np.ones((4, 1, 3)), np.ones((5, 3))).shape       # (4, 5)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.ir.source_lines import calling_source
from rlx.tracing.trace import shape_of
from rlx.transforms.batch import vmap

Core = tuple[str, ...]
_ARGUMENT = r"\([^()]*\)"
_LIST = rf"{_ARGUMENT}(?:,{_ARGUMENT})*"


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int] = (), signature: str | None = None
) -> Callable[..., Any]:
    """Return `pyfunc` mapped over the leading axes of its arguments.

    `signature` names the axes of one example; without it examples are numbers. Arguments at
    positions in `excluded` are passed on as they are.
    """
    cores, results = (None, None) if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    def call(*args: Any) -> Any:
        places = [i for i in range(len(args)) if i not in excluded]
        wanted: list[Core] = [()] * len(places) if cores is None else cores
        if len(wanted) != len(places):
            raise InputError(
                f"signature {signature!r} has {len(wanted)} arguments, and {len(places)} are given",
                source=calling_source(),
                remedy="name the axes of every argument that is not excluded",
            )

        def single(*examples: Any) -> Any:
            given = dict(zip(places, examples, strict=True))
            found = pyfunc(*[given.get(i, x) for i, x in enumerate(args)])
            _require_results(found, results, dict(_extents(examples, wanted)))
            return found

        return _mapped(single, [rnp.asarray(args[i]) for i in places], wanted)

    return call


def _mapped(single: Callable[..., Any], arrays: list[Any], cores: list[Core]) -> Any:
    leading = [_leading(x, core) for x, core in zip(arrays, cores, strict=True)]
    _require_equal_extents(arrays, cores)
    loop = rnp.broadcast_shapes(*leading)
    run = single
    axes = []
    for axis in range(-1, -len(loop) - 1, -1):  # innermost first
        mapped = tuple(0 if len(shape) >= -axis and shape[axis] != 1 else None for shape in leading)
        axes.append((loop[axis], mapped))
    for extent, mapped in axes:
        run = vmap(run, in_axes=mapped, axis_size=extent)
    squeezed = [
        rnp.reshape(x, [n for n in shape if n != 1] + list(shape_of(x)[len(shape) :]))
        for x, shape in zip(arrays, leading, strict=True)
    ]
    return run(*squeezed)


def _leading(x: Any, core: Core) -> tuple[int, ...]:
    shape = shape_of(x)
    if len(shape) < len(core):
        raise ShapeError(
            f"an argument of shape {shape} lacks axes: an example has ({', '.join(core)})",
            source=calling_source(),
            remedy="pass an array with at least the axes of one example",
        )
    return tuple(shape[: len(shape) - len(core)])  # type: ignore[arg-type]  # extents are known


def _extents(arrays: Sequence[Any], cores: list[Core]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the extent of every axis of one example."""
    for x, core in zip(arrays, cores, strict=True):
        yield from zip(core, shape_of(x)[len(shape_of(x)) - len(core) :], strict=True)


def _require_equal_extents(arrays: list[Any], cores: list[Core]) -> None:
    known: dict[str, Any] = {}
    for name, extent in _extents(arrays, cores):
        if not _agrees(known, name, extent):
            raise ShapeError(
                f"axis {name!r} of the signature is {known[name]} and {extent}",
                source=calling_source(),
                remedy="pass examples whose axes of one name are equally long",
            )


def _agrees(known: dict[str, Any], name: str, extent: Any) -> bool:
    """True if an axis is as long as those of its name, or as the number that is its name."""
    return bool(known.setdefault(name, int(name) if name.isdigit() else extent) == extent)


def _require_results(found: Any, cores: list[Core] | None, known: dict[str, Any]) -> None:
    """Refuse results of one example that have other axes than the signature says."""
    if cores is None:
        return
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    shapes = [shape_of(x) for x in results]
    if [len(shape) for shape in shapes] == [len(core) for core in cores] and all(
        _agrees(known, name, extent) for name, extent in _extents(results, cores)
    ):
        return
    raise ShapeError(
        f"the results of one example have shapes {shapes}, which the signature does not give",
        source=calling_source(),
        remedy="name the axes of every result after ->",
    )


def _parse(signature: str) -> tuple[list[Core], list[Core]]:
    """Return the names of the axes of each argument, and of each result."""
    text = re.sub(r"\s", "", signature)
    if not re.fullmatch(rf"{_LIST}->{_LIST}", text):
        raise InputError(
            f"signature {signature!r} is malformed",
            source=calling_source(),
            remedy="write it as in '(m,n),(n)->(m)'",
        )
    arguments, results = (re.findall(_ARGUMENT, side) for side in text.split("->"))
    return [_names(part) for part in arguments], [_names(part) for part in results]


def _names(part: str) -> Core:
    return tuple(name for name in part[1:-1].split(",") if name)

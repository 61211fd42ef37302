"""Arrays, shapes and keywords that are drawn, and calls of them that are compared with NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp

Array = NDArray[Any]

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS, COMPLEX = ("f4", "f8"), ("c8", "c16")
REAL = INTEGERS + FLOATS
NUMBERS = REAL + COMPLEX
ALL = ("?", *NUMBERS)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.0, 1e-3, 1e6)
ENDS = (np.inf, -np.inf, np.nan)
SMALL = tuple(range(-5, 6))


@dataclass
class Draw:
    """Draws arrays and keywords."""

    random: np.random.Generator

    def one(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def shape(self) -> tuple[int, ...]:
        least = 0 if self.random.random() < 0.2 else 1
        rank = self.random.integers(0, 4)
        return tuple(int(extent) for extent in self.random.integers(least, 5, rank))

    def array(
        self, dtypes: Sequence[str], shape: tuple[int, ...] | None = None, *, ends: bool = True
    ) -> Array:
        dtype = np.dtype(self.one(dtypes))
        shape = self.shape() if shape is None else shape
        if dtype.kind == "b":
            return np.asarray(self.random.integers(0, 2, shape), dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            pool = [limits.min, limits.max, limits.max // 2] if ends else []
            pool += [n for n in SMALL if n >= limits.min]
            return np.array([self.one(pool) for _ in range(int(np.prod(shape)))], dtype).reshape(
                shape
            )
        numbers = self._floats(shape, ends)
        if dtype.kind == "c":
            numbers = numbers + 1j * self.random.choice([0, 1, -1.5, 0.3], shape)
        return np.asarray(numbers, dtype)

    def _floats(self, shape: tuple[int, ...], ends: bool) -> Array:
        chosen = self.random.choice([*SPECIAL, *(ENDS if ends else ())], shape)
        return np.where(self.random.random(shape) < 0.5, chosen, self.random.normal(size=shape))

    def axis(self, x: Array) -> int:
        return int(self.random.integers(-x.ndim, x.ndim))

    def axes(self, x: Array) -> Any:
        """None, one axis or several."""
        if x.ndim == 0 or self.random.random() < 0.3:
            return None
        if self.random.random() < 0.5:
            return self.axis(x)
        count = self.random.integers(1, x.ndim + 1)
        return tuple(int(a) for a in self.random.permutation(x.ndim)[:count])

    def flag(self) -> bool:
        return bool(self.random.random() < 0.5)


Case = tuple[list[Any], dict[str, Any]]
Cases = Mapping[str, Callable[[Draw], Case]]


def matrices(*shapes: str) -> Callable[[Draw], Case]:
    """Arrays whose extents are named."""

    def draw(d: Draw) -> Case:
        extents = {name: int(d.random.integers(0, 4)) for shape in shapes for name in shape}
        first = d.array(NUMBERS, tuple(extents[n] for n in shapes[0]), ends=False)
        rest = [
            d.array([first.dtype.str], tuple(extents[n] for n in shape), ends=False)
            for shape in shapes[1:]
        ]
        return [first, *rest], {}

    return draw


def check(
    calls: Cases,
    name: str,
    seed: int,
    *,
    seen: Callable[..., Any] = lambda result, *_: result,
    compiled: bool = True,
) -> bool:
    """Compare one call, or what is to be seen of it; return whether NumPy has a result for it."""
    args, how = calls[name](Draw(np.random.default_rng([seed, *name.encode()])))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = seen(attrgetter(name)(np)(*args, **how), *args)
        except Exception:  # whatever NumPy says
            return False
        function = attrgetter(name)(rnp)
        found = [function(*args, **how)]
        if compiled and seed % 4 == 0:
            found.append(jitted(function, args, how))
        for each in found:
            agree(seen(each, *args), expected, f"{name}({args}, {how})")
    return True


def jitted(function: Any, args: Sequence[Any], how: Mapping[str, Any]) -> Any:
    """Compile a call: its arrays are traced, the rest is known."""
    arrays = [x for x in args if isinstance(x, np.ndarray)]

    def call(*traced: Any) -> Any:
        left = iter(traced)
        return function(*[next(left) if isinstance(x, np.ndarray) else x for x in args], **how)

    return rlx.jit(call)(*arrays)


def agree(found: Any, expected: Any, call: str) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected), call
        for one, other in zip(found, expected, strict=True):
            agree(one, other, call)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    if expected.dtype.kind == "U":
        assert found.tolist() == expected.tolist(), call
        return
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), call
    tolerance = 1e-4 if expected.dtype in (np.float32, np.complex64) else 1e-10
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 100, err_msg=call)

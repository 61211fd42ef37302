"""Drawn calls of the extensions of the array API standard, `linalg` and `fft`, are NumPy's.

Of decompositions that leave signs or bases open, what they multiply to is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.numpy.drawn import COMPLEX, FLOATS, NUMBERS, Array, Case, Cases, Draw, check, matrices

FIELD = FLOATS + COMPLEX


def normal(d: Draw, dtype: str, *shape: int) -> Array:
    """Numbers of no special kind: decompositions of them are well conditioned."""
    x = d.random.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * d.random.normal(size=shape)
    return np.asarray(x, dtype)


def batch(d: Draw) -> tuple[int, ...]:
    shape: tuple[int, ...] = d.one(((), (), (2,), (0,), (2, 3)))
    return shape


def square(*, least: int = 1) -> Callable[[Draw], Case]:
    """Invertible matrices, or stacks of them."""

    def draw(d: Draw) -> Case:
        n = int(d.random.integers(least, 5))
        dtype = d.one(FIELD)
        return [normal(d, dtype, *batch(d), n, n) + np.asarray(3 * np.eye(n), dtype)], {}

    return draw


def hermitian(d: Draw) -> Case:
    """Positive definite ones."""
    (x,), _ = square()(d)
    product = x @ np.conj(np.swapaxes(x, -1, -2))
    return [product + np.eye(x.shape[-1], dtype=x.dtype)], {}


def factored(d: Draw) -> Case:
    (x,), _ = hermitian(d)
    return [x], {"upper": d.flag()}


def rectangular(**options: Sequence[Any]) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        shape = [int(n) for n in d.random.integers(1, 5, 2)]
        x = normal(d, d.one(FIELD), *batch(d), *shape)
        return [x], {name: d.one(of) for name, of in options.items()}

    return draw


def system(d: Draw) -> Case:
    """Several right sides, or one vector."""
    (a,), _ = square()(d)
    if d.flag():
        return [a, normal(d, a.dtype.str, a.shape[-1])], {}
    return [a, normal(d, a.dtype.str, *a.shape[:-2], a.shape[-1], 2)], {}


def powered(d: Draw) -> Case:
    (x,), _ = square()(d)
    return [x, int(d.random.integers(-3, 6))], {}


def crossed(d: Draw) -> Case:
    shape = d.one(((3,), (2, 3), (3, 2), (2, 3, 4)))
    dtype = d.one(NUMBERS)
    x, y = (d.array([dtype], shape, ends=False) for _ in "xy")
    return [x, y], {"axis": d.one([axis for axis, extent in enumerate(shape) if extent == 3])}


def offset_diagonal(**options: Sequence[Any]) -> Callable[[Draw], Case]:
    def draw(d: Draw) -> Case:
        x = d.array(NUMBERS, (*batch(d), 3, int(d.random.integers(1, 5))), ends=False)
        return [x], {"offset": d.one((-4, -1, 0, 1, 2))}

    return draw


def contracted(d: Draw) -> Case:
    dtype = d.one(NUMBERS)
    x, y = (d.array([dtype], shape, ends=False) for shape in ((2, 3, 4), (3, 4, 2)))
    return [x, y], {"axes": d.one((0, ((1, 2), (0, 1)), ((2,), (1,)), ([-1, 0], [-2, -1])))}


def dotted(d: Draw) -> Case:
    shape = d.one(((3,), (2, 3), (3, 1), (2, 3, 4)))
    dtype = d.one(NUMBERS)
    x, y = (d.array([dtype], shape, ends=False) for _ in "xy")
    return [x, y], {"axis": int(d.random.integers(-len(shape), 0))}


def vector_norms(d: Draw) -> Case:
    x = d.array(FIELD, ends=False)
    order = d.one((1, 2, 3, 0, np.inf, -np.inf, -1, 2.5))
    if not x.size:
        order = 2
    return [x], {"axis": d.axes(x), "keepdims": d.flag(), "ord": order}


def spectrum(**options: Sequence[Any]) -> Callable[[Draw], Case]:
    """One axis; the count may cut or fill up."""

    def draw(d: Draw) -> Case:
        x = normal(d, d.one(options["of"]), *batch(d)[:1], *d.random.integers(2, 9, 2))
        if not x.size:
            x = np.ones((2, 3), x.dtype)
        how: dict[str, Any] = {"n": int(d.random.integers(2, 12))} if d.flag() else {}
        return [x], {"axis": d.axis(x), "norm": d.one(("backward", "ortho", "forward")), **how}

    return draw


def spectra(**options: Sequence[Any]) -> Callable[[Draw], Case]:
    """Several axes."""

    def draw(d: Draw) -> Case:
        x = normal(d, d.one(options["of"]), *d.random.integers(2, 6, 3))
        axes = tuple(int(a) for a in d.random.permutation(3)[: d.one((1, 2, 3))])
        s = tuple(int(n) for n in d.random.integers(2, 7, len(axes))) if d.flag() else None
        how: dict[str, Any] = {} if s is None and d.flag() else {"axes": axes}
        how |= {"s": s} if s is not None else {}
        return [x], {"norm": d.one(("backward", "ortho", "forward")), **how}

    return draw


def frequencies(d: Draw) -> Case:
    return [int(d.random.integers(1, 20))], {"d": d.one((1.0, 0.1, 4.0))}


def shifted(d: Draw) -> Case:
    x = d.array(NUMBERS)
    return [x], {"axes": d.axes(x)}


CALLS: Cases = {
    "linalg.cholesky": factored, "linalg.cross": crossed,
    **dict.fromkeys(("linalg.det", "linalg.inv", "linalg.slogdet"), square()),
    **dict.fromkeys(("linalg.eigh", "linalg.eigvalsh"), hermitian),
    **dict.fromkeys(("linalg.diagonal", "linalg.trace"), offset_diagonal()),
    **dict.fromkeys(("linalg.matmul", "matmul"), matrices("mk", "kn")),
    **dict.fromkeys(("linalg.matrix_transpose",), rectangular()),
    "linalg.matrix_norm": rectangular(
        ord=(1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"), keepdims=(True, False)),
    "linalg.matrix_power": powered, "linalg.matrix_rank": rectangular(rtol=(None, 1e-2)),
    "linalg.outer": matrices("m", "k"), "linalg.pinv": rectangular(rtol=(None, 1e-3)),
    "linalg.qr": rectangular(mode=("reduced", "complete")), "linalg.solve": system,
    "linalg.svd": rectangular(full_matrices=(True, False)), "linalg.svdvals": rectangular(),
    **dict.fromkeys(("linalg.tensordot", "tensordot"), contracted),
    **dict.fromkeys(("linalg.vecdot", "vecdot"), dotted), "linalg.vector_norm": vector_norms,
    **dict.fromkeys(("fft.fft", "fft.ifft"), spectrum(of=FIELD)),
    **dict.fromkeys(("fft.rfft", "fft.ihfft"), spectrum(of=FLOATS)),
    **dict.fromkeys(("fft.irfft", "fft.hfft"), spectrum(of=COMPLEX)),
    **dict.fromkeys(("fft.fftn", "fft.ifftn"), spectra(of=FIELD)),
    "fft.rfftn": spectra(of=FLOATS), "fft.irfftn": spectra(of=COMPLEX),
    **dict.fromkeys(("fft.fftfreq", "fft.rfftfreq"), frequencies),
    **dict.fromkeys(("fft.fftshift", "fft.ifftshift"), shifted),
}  # fmt: skip


def diagonal(values: Array, rows: int, columns: int) -> Array:
    """Matrices with values on the diagonal."""
    made = np.zeros((*values.shape[:-1], rows, columns), values.dtype)
    places = np.arange(values.shape[-1])
    made[..., places, places] = values
    return made


def eigen(result: Any, _: Array) -> Any:
    values, vectors = (np.asarray(part) for part in result)
    assert result.eigenvalues is result[0]
    adjoint = np.conj(np.swapaxes(vectors, -1, -2))
    return [values, vectors * values[..., None, :] @ adjoint, vectors @ adjoint]


def triangular(result: Any, _: Array) -> Any:
    q, r = np.asarray(result.Q), np.asarray(result.R)
    return [q @ r, np.abs(r), np.conj(np.swapaxes(q, -1, -2)) @ q]


def singular(result: Any, _: Array) -> Any:
    u, s, vh = np.asarray(result.U), np.asarray(result.S), np.asarray(result.Vh)
    product = u @ diagonal(s, u.shape[-1], vh.shape[-2]).astype(u.dtype) @ vh
    return [s, product, np.abs(np.linalg.det(u)) if u.shape[-1] == u.shape[-2] else u.shape]


SEEN = {"linalg.eigh": eigen, "linalg.qr": triangular, "linalg.svd": singular}


def checked(name: str, seed: int) -> bool:
    seen: Any = SEEN.get(name, lambda result, *_: result)
    return check(CALLS, name, seed, seen=seen)


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CALLS))
def test_drawn_calls_are_numpys(name: str) -> None:
    assert sum(checked(name, seed) for seed in range(56)) > 15

"""What PyTorch leaves open in results of its operators, and operators that are not compared."""

from __future__ import annotations

from typing import Any

import torch

from tests.torch import samples

_SPARSE = "sparse tensors"
_LDL = "no rule for factorizations of symmetric indefinite matrices"
_CHUNKED = "no rule for a custom operator that computes in chunks"
_COMPLEX32 = "complex32, which rlx lacks"

TABLE: dict[str, str] = {
    "sparse.sampled_addmm": _SPARSE, "sparse.mm.reduce": _SPARSE, "to_sparse": _SPARSE,
    "chalf": _COMPLEX32,
    "linalg.ldl_factor": _LDL, "linalg.ldl_factor_ex": _LDL, "linalg.ldl_solve": _LDL,
    "nn.functional.linear_cross_entropy.chunked": _CHUNKED,
    "nn.functional.linear_cross_entropy.chunked_none": _CHUNKED,
    "nn.functional.rrelu": "training draws a slope for each negative element, and none for others",
    "index_put": "several values at the places of a mask, whose count only a run gives",
}  # fmt: skip
"""Operators of which all or some samples are refused, with the reason."""

_UNDEFINED = frozenset({
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "resize_", "resize_as_",
})  # fmt: skip
"""Operators that return memory whose contents are not defined: types and shapes are compared."""

_PLACED = frozenset({"kthvalue", "topk", "mode", "median", "nanmedian", "sort", "argsort"})
"""Operators that return places, and leave open which of equal elements is meant."""

_FREE = frozenset({"linalg.eigh", "linalg.eig", "linalg.svd", "svd"})
"""Operators whose vectors have a free sign or phase: results without it are compared."""


_UNORDERED = frozenset({"linalg.eig", "linalg.eigvals"})
"""Operators that return eigenvalues in any order."""


_ROUGH = frozenset({f"special.bessel_{name}" for name in ("j0", "j1", "y0", "y1")})
"""Operators that PyTorch computes to fewer digits than f64 has (a relative error of 6.6e-6 in y1 at
5.58, where SciPy and rlx agree to 6e-16): results are compared in single precision.
`test_rules.py` compares all digits."""


UNTRACED = frozenset({
    ("_foreach_pow", "bool"),
    *(("linspace", dtype) for dtype in ("int8", "int16", "int32", "int64", "uint8")),
})  # fmt: skip
"""Operators and dtypes for which PyTorch traces other results than eager mode returns: another type
(int64), integers from a bound that eager mode truncates first."""


def reason(name: str) -> str | None:
    """Return why an operator is refused."""
    return TABLE.get(name)


def named() -> set[str]:
    """Return the operators that the tables name."""
    return {*TABLE, *_UNDEFINED, *_PLACED, *_FREE, *_UNORDERED, *_ROUGH}


def disagreement(name: str, call: Any, weights: Any, expected: Any, found: Any) -> str:
    """Return how results differ in what PyTorch determines; "" where they agree."""
    if name in _UNDEFINED:
        return _types(expected[0], found[0])
    if name in _ROUGH:
        if text := _types(expected[0], found[0]):
            return text
        expected, found = (
            [[x.float() if x.dtype is torch.float64 else x for x in part] for part in each]
            for each in (expected, found)
        )
    if name in _FREE:
        if text := _types(expected[0], found[0]):
            return text
        expected, found = ([[], *each[1:]] for each in (expected, found))
    elif name in _PLACED and _are_of_equals(call.tensors[0], expected[0], found[0]):
        expected, found = ([each[0][:-1], *each[1:]] for each in (expected, found))
    elif name not in _UNORDERED:
        return samples.disagreement(call, weights, expected, found)
    text = samples.difference(expected, found)
    if text and name in _UNORDERED:
        text = samples.difference(_unordered(expected), _unordered(found))
    return text


def _unordered(outcome: Any) -> Any:
    """Return eigenvalues in a fixed order, without gradients, which depend on the order."""
    results, _, smooth = outcome
    return [_sorted(x) for x in (results or smooth)[:1]], [], []


def _are_of_equals(x: Any, expected: Any, found: Any) -> bool:
    """True if the last results are places, along some axis, of elements that are equal."""
    if not (expected and found and x.dim() and expected[-1].shape == found[-1].shape):
        return False
    left, right = expected[-1], found[-1]
    if left.dtype is not torch.int64 or right.dtype is not torch.int64 or not x.numel():
        return False
    for axis in range(x.dim()):
        try:
            one, other = (
                torch.take_along_dim(
                    x.detach(), each if each.dim() == x.dim() else each.unsqueeze(axis), axis
                )
                for each in (left, right)
            )
        except (RuntimeError, IndexError):  # not places along this axis
            continue
        if bool(torch.all((one == other) | (one.isnan() & other.isnan()))):
            return True
    return False


def _sorted(x: Any) -> Any:
    """Return eigenvalues in an order of their own: by real parts, then by imaginary ones."""
    if not x.numel():
        return x
    parts = torch.view_as_real(x.detach().resolve_conj() / max(float(x.abs().max()), 1e-30))
    real, imaginary = torch.round(parts * 1e3).unbind(-1)
    return torch.take_along_dim(x, torch.argsort(real * 1e5 + imaginary, dim=-1), -1)


def _types(expected: Any, found: Any) -> str:
    for x, y in zip(expected, found, strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            return f"{y.dtype} {tuple(y.shape)} and not {x.dtype} {tuple(x.shape)}"
    return ""

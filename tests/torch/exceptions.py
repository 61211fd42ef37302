"""Operators of PyTorch's database that are not compared, each with its reason.

Samples whose result has a size that values decide are not in the table: PyTorch itself raises for
them, and Dynamo leaves them to Python.
"""

from __future__ import annotations

_SPARSE = "sparse tensors"
_NO_RULE = "no rule: NoRuleError names the operator"
_UNDEFINED = "contents of new memory are undefined"
_FREE = "eigenvectors have a free sign, or phase"
_COMPLEX32 = "complex32, which rlx lacks"

TABLE: dict[str, str] = {
    "sparse.sampled_addmm": _SPARSE, "sparse.mm.reduce": _SPARSE, "to_sparse": _SPARSE,
    "empty": _UNDEFINED, "empty_like": _UNDEFINED, "empty_permuted": _UNDEFINED,
    "empty_strided": _UNDEFINED, "new_empty": _UNDEFINED, "new_empty_strided": _UNDEFINED,
    "resize_": _UNDEFINED, "resize_as_": _UNDEFINED,
    "chalf": _COMPLEX32,
    "geqrf": _NO_RULE,
    "histogram": _NO_RULE, "histogramdd": _NO_RULE,
    "multinomial": _NO_RULE,
    "nn.functional.fractional_max_pool2d": _NO_RULE,
    "nn.functional.fractional_max_pool3d": _NO_RULE,
    "nn.functional.rrelu": _NO_RULE,
    "nn.functional.linear_cross_entropy.chunked": _NO_RULE,
    "nn.functional.linear_cross_entropy.chunked_none": _NO_RULE,
    "hash_tensor": _NO_RULE, "_segment_reduce.lengths": _NO_RULE,
    "_segment_reduce.offsets": _NO_RULE,
    "linalg.ldl_factor": _NO_RULE, "linalg.ldl_factor_ex": _NO_RULE, "linalg.ldl_solve": _NO_RULE,
    **{
        f"special.{name}": _NO_RULE
        for name in (
            "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1",
            *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
            *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
            "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
            "legendre_polynomial_p", "modified_bessel_k0", "modified_bessel_k1",
            "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
        )
    },
    "linalg.eigh": _FREE, "linalg.eig": _FREE,
}  # fmt: skip
"""Operators of which no sample is compared."""

PER_DTYPE: dict[tuple[str, str], str] = {
    ("argsort", "bool"): "places of equal elements, which PyTorch leaves open",
    ("sort", "bool"): "places of equal elements, which PyTorch leaves open",
}
"""Operators that are not compared in one dtype."""

TIES = frozenset({"kthvalue", "topk", "mode", "median", "nanmedian"})
"""Operators that return places, too, and leave open which of equal ones: values are compared."""

COMPILED = frozenset({"igamma", "igammac"})
"""Operators that take minutes in the reference interpreter, and are compiled instead."""


def reason(name: str, dtype: str) -> str | None:
    """Return why an operator is not compared."""
    return TABLE.get(name) or PER_DTYPE.get((name, dtype))


def named() -> set[str]:
    """Return the operators that the tables name."""
    return {*TABLE, *(name for name, _ in PER_DTYPE), *TIES}

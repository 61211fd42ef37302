"""Rules of calls of JAX's and XLA's own functions by name: LAPACK's, markers, checks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir import ir

import rlx.lax as lax
import rlx.numpy as rnp
from rlx.errors import FormatError, InputError, NoRuleError, UnsupportedError
from rlx.lax import linalg
from rlx.stablehlo.extents import Numbers, plain
from rlx.stablehlo.interpret import Operation, rule, rule_of
from rlx.stablehlo.types import word
from rlx.tracing.trace import element_type

_IDENTITIES = (
    "LayoutConstraint", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape",
    "annotate_device_placement",
)  # fmt: skip
_LAPACK = re.compile(r"lapack_[sdcz]([a-z]+)_ffi")
_RENAMED = {"mhlo.topk": "chlo.top_k"}


@rule("stablehlo.custom_call", takes_numbers=True)
def custom_call(operation: Operation, *operands: Any) -> Any:
    target = ir.StringAttr(operation.attribute("call_target_name")).value
    if target in _IDENTITIES:
        return list(operands)
    if target == "shape_assertion":
        return _shape_assertion(operation, *operands)
    arrays = [plain(x) for x in operands]
    if target == "ApproxTopK":
        return _approximate_top_k(operation, *arrays)
    lapack = _LAPACK.fullmatch(target)
    if lapack is not None and lapack[1] in _FACTORS:
        return _FACTORS[lapack[1]](operation, *arrays)
    function = rule_of(_RENAMED.get(target, target.replace("mhlo.", "chlo.")))
    if target.startswith("mhlo.") and function is not None:
        given = operation.attribute("mhlo.attributes")
        return function(Operation(operation.op, operation.scope, given or {}), *arrays)
    raise NoRuleError(
        f"from_stablehlo: a call of {target!r}, a function outside of the program",
        source=operation.source,
        remedy="replace it by operations of StableHLO before exporting",
    )


def _shape_assertion(operation: Operation, holds: Any, *numbers: Any) -> Any:
    """Check what an export says of its symbolic extents, while tracing."""
    message = ir.StringAttr(operation.attribute("error_message")).value
    if not isinstance(holds, np.ndarray):
        raise UnsupportedError(
            f"from_stablehlo: a check of extents that their bounds do not decide: {message}",
            source=operation.source,
            remedy="give bounds, rlx.Dim(..., min=, max=), multiples of extents as 2 * rlx.Dim(), "
            "or fixed shapes",
        )
    if not bool(holds):
        shown = [x.values.item() if isinstance(x, Numbers) else x for x in numbers]
        text = re.sub(r"\{(\d+)\}", lambda m: _shown(shown, int(m[1])), message)
        raise InputError(
            f"from_stablehlo: {text}",
            source=operation.source,
            remedy="pass arrays of the extents that the program was exported for",
        )
    return []


def _shown(numbers: list[Any], place: int) -> str:
    return str(numbers[place]) if place < len(numbers) else "?"


def _settings(operation: Operation) -> Any:
    return operation.attribute("mhlo.backend_config") or {}


def _letter(operation: Operation, name: str) -> str:
    """Return an argument of LAPACK that is a letter."""
    settings = _settings(operation)
    if name not in settings:
        raise FormatError(
            f"from_stablehlo: a call of LAPACK without {name}",
            source=operation.source,
            remedy="export the program again, by a version of JAX of the last two years",
        )
    return chr(int(settings[name].value))


def _success(operation: Operation) -> Any:
    """Return LAPACK's status; what fails has NaN in its results."""
    return np.zeros(operation.shape(len(operation.op.results) - 1), np.int32)


def _potrf(operation: Operation, a: Any) -> Any:
    if _letter(operation, "uplo") == "L":
        return [linalg.cholesky(a, symmetrize_input=False), _success(operation)]
    lower = linalg.cholesky(_adjoint(a), symmetrize_input=False)
    return [_adjoint(lower), _success(operation)]


def _adjoint(a: Any) -> Any:
    turned = rnp.swapaxes(a, -1, -2)
    return lax.conj(turned) if element_type(a).dtype.is_complex else turned


def _getrf(operation: Operation, a: Any) -> Any:
    factors, pivots, _ = linalg.lu(a)
    return [factors, pivots + 1, _success(operation)]


def _geqrf(_: Operation, a: Any) -> Any:
    return list(linalg.geqrf(a))


def _orgqr(_: Operation, a: Any, taus: Any) -> Any:
    return linalg.householder_product(a, taus)


def _ormqr(operation: Operation, a: Any, taus: Any, c: Any) -> Any:
    left = _letter(operation, "side") == "L"
    turned = _letter(operation, "trans") != "N"
    return linalg.ormqr(a, taus, c, left=left, transpose=turned)


def _gesdd(operation: Operation, a: Any) -> Any:
    mode = _letter(operation, "mode")
    if mode == "N":
        values = linalg.svd(a, full_matrices=False, compute_uv=False)
        unused = [np.zeros(operation.shape(i), operation.dtype(i).numpy) for i in (2, 3)]
        return [a, values, *unused, _success(operation)]
    left, values, right = linalg.svd(a, full_matrices=mode == "A")
    return [a, values, left, right, _success(operation)]


def _syevd(operation: Operation, a: Any) -> Any:
    lower = _letter(operation, "uplo") == "L"
    vectors, values = linalg.eigh(a, lower=lower, symmetrize_input=False)
    return [vectors, values, _success(operation)]


def _geev(operation: Operation, a: Any) -> Any:
    asked = [_letter(operation, name) == "V" for name in ("compute_left", "compute_right")]
    values, *vectors = linalg.eig(
        a, compute_left_eigenvectors=asked[0], compute_right_eigenvectors=asked[1]
    )
    found = iter(vectors)
    is_complex = element_type(a).dtype.is_complex
    parts = [values] if is_complex else [lax.real(values), lax.imag(values)]
    places = range(len(parts), len(parts) + 2)
    sides = [
        next(found) if is_asked else np.zeros(operation.shape(i), operation.dtype(i).numpy)
        for i, is_asked in zip(places, asked, strict=True)
    ]
    return [*parts, *sides, _success(operation)]


def _gees(operation: Operation, a: Any) -> Any:
    if _letter(operation, "sort") != "N":
        raise UnsupportedError(
            "from_stablehlo: a Schur form with sorted eigenvalues",
            source=operation.source,
            remedy="leave the eigenvalues unsorted",
        )
    form, *vectors = linalg.schur(a, compute_schur_vectors=_letter(operation, "mode") == "V")
    rest = [
        np.zeros(operation.shape(i), operation.dtype(i).numpy)
        for i in range(2, len(operation.op.results))
    ]
    return [form, vectors[0] if vectors else a, *rest]


def _gehrd(operation: Operation, a: Any) -> Any:
    return [*linalg.hessenberg(a), _success(operation)]


def _sytrd(operation: Operation, a: Any) -> Any:
    lower = _letter(operation, "uplo") == "L"
    return [*linalg.tridiagonal(a, lower=lower)[:4], _success(operation)]


def _trsm(operation: Operation, a: Any, b: Any) -> Any:
    turned = _letter(operation, "trans_x")
    return linalg.triangular_solve(
        a,
        b,
        left_side=_letter(operation, "side") == "L",
        lower=_letter(operation, "uplo") == "L",
        transpose_a=turned in "TC",
        conjugate_a=turned == "C",
        unit_diagonal=_letter(operation, "diag") == "U",
    )


def _gtsv(operation: Operation, lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    found = linalg.tridiagonal_solve(lower, diagonal, upper, b)
    return [lower, diagonal, upper, found, _success(operation)]


_FACTORS: dict[str, Callable[..., Any]] = {
    "gees": _gees, "geev": _geev, "gehrd": _gehrd, "geqrf": _geqrf, "gesdd": _gesdd,
    "getrf": _getrf, "gtsv": _gtsv, "heevd": _syevd, "hetrd": _sytrd, "orgqr": _orgqr,
    "ormqr": _ormqr, "potrf": _potrf, "syevd": _syevd, "sytrd": _sytrd, "trsm": _trsm,
    "ungqr": _orgqr, "unmqr": _ormqr,
}  # fmt: skip


def _approximate_top_k(operation: Operation, x: Any, *_: Any) -> Any:
    settings = _settings(operation)
    axis, count = (int(settings[name].value) for name in ("reduction_dim", "top_k"))
    comparison = ir.ArrayAttr(operation.attribute("called_computations"))[0]
    name = ir.FlatSymbolRefAttr(comparison).value
    block = operation.scope.program.functions[name].regions[0].blocks[0]
    found = block.operations[0].operation
    is_one = found.name == "stablehlo.compare"
    direction = word(found.attributes["comparison_direction"]) if is_one else ""
    is_first = list(found.operands)[:2] == list(block.arguments)[:2]
    for first, search in (("GT", lax.approx_max_k), ("LT", lax.approx_min_k)):
        if is_first and direction == first:
            values, places = search(x, count, axis)
            return [values, lax.convert_element_type(places, operation.dtype(1).numpy)]
    raise UnsupportedError(
        "from_stablehlo: ApproxTopK by another order than that of its first operand",
        source=operation.source,
        remedy="compare its first two arguments by GT or LT",
    )

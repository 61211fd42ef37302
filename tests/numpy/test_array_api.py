"""`rlx.numpy` has what the array API standard (2024.12) names, with its keywords."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import rlx.numpy as rnp
from rlx.errors import InputError

FUNCTIONS = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "asarray",
    "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "broadcast_arrays",
    "broadcast_to", "can_cast", "ceil", "clip", "concat", "conj", "copysign", "cos", "cosh",
    "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "divide", "empty", "empty_like",
    "equal", "exp", "expand_dims", "expm1", "eye", "finfo", "flip", "floor", "floor_divide",
    "from_dlpack", "full", "full_like", "greater", "greater_equal", "hypot", "iinfo", "imag",
    "isdtype", "isfinite", "isin", "isinf", "isnan", "less", "less_equal", "linspace", "log",
    "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min",
    "minimum", "moveaxis", "multiply", "negative", "nextafter", "nonzero", "not_equal", "ones",
    "ones_like", "permute_dims", "positive", "pow", "prod", "real", "reciprocal", "remainder",
    "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin",
    "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu", "trunc", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where",
    "zeros", "zeros_like", "__array_namespace_info__",
]  # fmt: skip
LINALG = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
FFT = [
    "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft", "fftfreq",
    "rfftfreq", "fftshift", "ifftshift",
]  # fmt: skip
KEYWORDS = {
    "arange": "dtype device", "argmax": "axis keepdims", "argsort": "axis descending stable",
    "asarray": "dtype device copy", "astype": "copy device", "clip": "min max", "concat": "axis",
    "count_nonzero": "axis keepdims", "cumulative_prod": "axis dtype include_initial",
    "cumulative_sum": "axis dtype include_initial", "diff": "axis n prepend append",
    "empty": "dtype device", "empty_like": "dtype device", "expand_dims": "axis",
    "eye": "k dtype device", "flip": "axis", "from_dlpack": "device copy", "full": "dtype device",
    "full_like": "dtype device", "isin": "invert", "linspace": "dtype device endpoint",
    "max": "axis keepdims", "mean": "axis keepdims", "meshgrid": "indexing",
    "ones": "dtype device", "ones_like": "dtype device", "prod": "axis dtype keepdims",
    "repeat": "axis", "reshape": "copy", "roll": "axis", "searchsorted": "side sorter",
    "sort": "axis descending stable", "squeeze": "axis", "std": "axis correction keepdims",
    "sum": "axis dtype keepdims", "take": "axis", "take_along_axis": "axis", "tensordot": "axes",
    "unstack": "axis", "var": "axis correction keepdims", "vecdot": "axis",
    "zeros": "dtype device", "zeros_like": "dtype device",
    "linalg.cholesky": "upper", "linalg.cross": "axis", "linalg.diagonal": "offset",
    "linalg.matrix_norm": "keepdims ord", "linalg.matrix_rank": "rtol", "linalg.pinv": "rtol",
    "linalg.qr": "mode", "linalg.svd": "full_matrices", "linalg.trace": "offset dtype",
    "linalg.vector_norm": "axis keepdims ord", "fft.fft": "n axis norm", "fft.fftn": "s axes norm",
    "fft.hfft": "n axis norm", "fft.fftfreq": "d dtype device", "fft.fftshift": "axes",
}  # fmt: skip


def test_every_function_of_the_standard_is_there() -> None:
    missing = [name for name in FUNCTIONS if not callable(getattr(rnp, name, None))]
    missing += [f"linalg.{name}" for name in LINALG if not hasattr(rnp.linalg, name)]
    missing += [f"fft.{name}" for name in FFT if not hasattr(rnp.fft, name)]
    assert not missing


@pytest.mark.whole
@pytest.mark.parametrize("name", KEYWORDS)
def test_functions_take_the_keywords_of_the_standard(name: str) -> None:
    function: Any = rnp
    for part in name.split("."):
        function = getattr(function, part)
    parameters = inspect.signature(function).parameters
    assert not set(KEYWORDS[name].split()) - set(parameters)


def test_the_namespace_lists_what_it_can_do() -> None:
    assert rnp.__array_api_version__ == "2024.12"
    info = rnp.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes()["integral"] == np.int64
    assert info.dtypes(kind="unsigned integer") == {
        f"uint{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)
    }
    assert {"bool", "float32", "complex64", "int8"} <= set(info.dtypes())
    assert info.capabilities()["boolean indexing"]


def test_there_is_one_device() -> None:
    assert rnp.zeros(2, device="cpu").tolist() == [0, 0]
    with pytest.raises(InputError, match="device"):
        rnp.ones(2, device="gpu")
    with pytest.raises(InputError, match="device"):
        rnp.asarray([1], device="gpu")


def test_asarray_copies_only_where_it_may() -> None:
    x = rnp.arange(3)
    assert rnp.asarray(x, copy=False).tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="without a copy"):
        rnp.asarray(np.arange(3), copy=False)


def test_traces_add_up_in_the_dtype_that_is_named() -> None:
    x = np.full((2, 2), 100, np.int8)
    assert rnp.linalg.trace(x, dtype="int64") == 200

"""PyTorch's dtypes, extents and types of values as rlx's, and arrays that share memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

from rlx.errors import DTypeError, SymbolicExtentError, UnsupportedError
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Extent
from rlx.ir.types import TensorType

Array = np.ndarray[Any, Any]

DTYPES: dict[torch.dtype, DType] = {
    torch.float16: DType.F16, torch.bfloat16: DType.BF16, torch.float32: DType.F32,
    torch.float64: DType.F64, torch.int8: DType.I8, torch.int16: DType.I16,
    torch.int32: DType.I32, torch.int64: DType.I64, torch.uint8: DType.U8,
    torch.uint16: DType.U16, torch.uint32: DType.U32, torch.uint64: DType.U64,
    torch.bool: DType.BOOL, torch.complex64: DType.C64, torch.complex128: DType.C128,
    torch.float8_e4m3fn: DType.F8_E4M3FN, torch.float8_e5m2: DType.F8_E5M2,
}  # fmt: skip
_TORCH = {ours: theirs for theirs, ours in DTYPES.items()}
_CARRIED = {
    torch.bfloat16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    torch.float8_e4m3fn: (torch.uint8, np.dtype(ml_dtypes.float8_e4m3fn)),
    torch.float8_e5m2: (torch.uint8, np.dtype(ml_dtypes.float8_e5m2)),
}
"""Dtypes that NumPy has from ml_dtypes: their bits pass as integers."""
_CARRIERS = {
    numpy: (carrier.__repr__()[6:], theirs) for theirs, (carrier, numpy) in _CARRIED.items()
}


def dtype_of(dtype: torch.dtype) -> DType:
    """Return rlx's dtype for one of PyTorch's; raise DTypeError if there is none."""
    found = DTYPES.get(dtype)
    if found is None:
        known = " ".join(str(each).removeprefix("torch.") for each in DTYPES)
        raise DTypeError(f"rlx has no dtype for {dtype}", remedy=f"use one of: {known}")
    return found


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose memory holds its values, which a conjugate or negative view's does not.

    Of the arguments of a compiled graph only cotangents change in that: Dynamo guards the others.
    """
    return tensor.resolve_conj().resolve_neg()


def as_array(tensor: torch.Tensor) -> Array:
    """Return a tensor's memory as a NumPy array, without a copy.

    A conjugate or negative view is copied. A tensor that is not on the CPU, or has no strides,
    raises UnsupportedError.
    """
    carried = _CARRIED.get(tensor.dtype)
    plain = tensor.detach()
    try:
        if carried is not None:
            found: Array = plain.view(carried[0]).numpy().view(carried[1])
        elif plain.is_conj() or plain.is_neg():
            found = resolved(plain).numpy()
        else:
            found = plain.numpy()
    except (TypeError, RuntimeError) as error:
        raise UnsupportedError(
            f"a tensor of dtype {tensor.dtype}, layout {tensor.layout} on {tensor.device} cannot "
            f"be read in place: {error}",
            remedy="move it to the CPU as a dense tensor, with .cpu() or .to_dense()",
        ) from error
    return found


def as_tensor(array: Array) -> torch.Tensor:
    """Return a NumPy array's memory as a tensor, without a copy; a read-only one is copied."""
    carried = _CARRIERS.get(array.dtype)
    if not array.flags.writeable or array.__class__ is not np.ndarray:
        array = np.array(array, subok=False)
    if carried is not None:
        return torch.from_numpy(array.view(carried[0])).view(carried[1])
    return torch.from_numpy(array)


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return PyTorch's dtype for one of rlx's."""
    return _TORCH[dtype]


def static_size(extent: Any) -> Extent | None:
    """Return an extent that is a number, None for a symbolic one."""
    return int(extent) if isinstance(extent, int) else None


def type_of(value: Any, extents: Extents | None = None) -> TensorType:
    """Return the type of a (fake) tensor."""
    known = extents or Extents({})
    return TensorType(dtype_of(value.dtype), tuple(map(known.extent, value.shape)))


class Extents:
    """Symbolic sizes of PyTorch as extents: `symbols` maps their names to ours."""

    def __init__(self, symbols: dict[str, Extent]) -> None:
        self.symbols = symbols

    def extent(self, size: Any) -> Extent:
        """Return a size as an extent."""
        if isinstance(size, int):
            return size
        return self._of(size.node.expr)

    def _of(self, expression: Any) -> Extent:
        import sympy

        if expression.is_Integer:
            return int(expression)
        if expression.is_Symbol and expression.name in self.symbols:
            return self.symbols[expression.name]
        if isinstance(expression, sympy.Add):
            total: Extent = 0
            for part in expression.args:
                total = total + self._of(part)
            return total
        if isinstance(expression, sympy.Mul):
            product: Extent = 1
            for part in expression.args:
                product = product * self._of(part)
            return product
        if isinstance(expression, sympy.Pow) and expression.args[1].is_Integer:
            power: Extent = 1
            for _ in range(int(expression.args[1])):
                power = power * self._of(expression.args[0])
            return power
        if type(expression).__name__ in ("FloorDiv", "CleanDiv"):
            dividend, divisor = map(self._of, expression.args)
            return dividend // divisor
        raise SymbolicExtentError(
            f"the extent {expression} has no form in rlx",
            remedy="compile it for fixed sizes, with dynamic=False",
        )


def is_symbol(extent: Extent) -> bool:
    """True for an extent that is one symbol."""
    return isinstance(extent, Dim) and len(extent.terms) == 1 and str(extent).isidentifier()

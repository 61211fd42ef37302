"""Constant data as an attribute: an immutable array that hashes and compares by its bytes."""

from __future__ import annotations

import hashlib
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlx.errors import DTypeError
from rlx.ir.dtype import DType, as_dtype
from rlx.ir.types import TensorType


class Literal:
    """A read-only, C-contiguous array. Equal means same type and same bits (NaN equals NaN)."""

    __slots__ = ("_digest", "array")

    def __init__(self, array: NDArray[Any]) -> None:
        as_dtype(array.dtype)  # a DTypeError here, not where the type is first asked for
        self.array: NDArray[Any] = np.array(array, order="C", copy=True)
        self.array.setflags(write=False)
        self._digest: bytes | None = None

    @classmethod
    def from_bytes(cls, type: TensorType, data: bytes | memoryview) -> Self:
        """Return the literal of `type` whose little-endian content is `data`, without a copy."""
        literal = cls.__new__(cls)
        flat = np.frombuffer(data, type.dtype.numpy) if len(data) else np.empty(0, type.dtype.numpy)
        literal.array = flat.reshape(type.static_shape)
        literal.array.setflags(write=False)
        literal._digest = None
        return literal

    @property
    def dtype(self) -> DType:
        return as_dtype(self.array.dtype)

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.array.shape)

    @property
    def digest(self) -> bytes:
        """SHA-256 over dtype, shape and content."""
        if self._digest is None:
            header = f"{self.type}:".encode()
            self._digest = hashlib.sha256(header + self.array.tobytes()).digest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Literal({self.type})"


def array_of(value: ArrayLike, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Return a constant as an array of `dtype`, or of its own; Python's floats are f32."""
    try:
        array = np.asarray(value, dtype=None if dtype is None else dtype.numpy)
    except OverflowError as error:
        raise DTypeError(
            f"constant {value!r} does not fit {dtype}",
            remedy="use a wider dtype, or a smaller number",
        ) from error
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"constant {value!r} is not an array of numbers: {error}",
            remedy="pass numbers, in lists of equal lengths",
        ) from error
    if dtype is not None:
        return array
    if isinstance(value, (float, complex)) and not isinstance(value, np.generic):
        return array.astype(np.float32 if isinstance(value, float) else np.complex64)
    return array

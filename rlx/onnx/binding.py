"""Values and bindings of ONNX Runtime's interface: `OrtValue` and `IOBinding`.

Arrays are in the memory of the processor, so a value is an array, and a binding a list of names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from rlx.errors import InputError, UnsupportedError
from rlx.onnx.types import numpy_dtype, type_name

Array = np.ndarray[Any, Any]


class OrtValue:
    """An array of the processor, shared with the caller, or a list of arrays (a sequence)."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Return a value that shares the memory of an array."""
        _check_device(device_type, device_id)
        return cls(np.asarray(numpy_obj))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Return a value of zeros; the element type is a NumPy dtype or the standard's number."""
        _check_device(device_type, device_id)
        return cls(np.zeros(tuple(shape), _element_dtype(element_type)))

    def numpy(self) -> Array:
        """Return the array, without a copy."""
        if not self.is_tensor():
            raise InputError("this OrtValue is a sequence", remedy="take its elements one by one")
        found: Array = self._value
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def shape(self) -> list[int]:
        return list(self.numpy().shape)

    def element_type(self) -> int:
        """Return the standard's number for the type of the elements."""
        return int(onnx.helper.np_dtype_to_tensor_dtype(self.numpy().dtype))

    def data_type(self) -> str:
        """Return the type as `tensor(float)`."""
        if not self.is_tensor():
            return f"seq({OrtValue(self._value[0]).data_type()})" if self._value else "seq()"
        return f"tensor({type_name(self.element_type())})"

    def data_ptr(self) -> int:
        return int(self.numpy().ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        return int(self.numpy().nbytes)

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        return False

    def update_inplace(self, np_arr: Array) -> None:
        """Overwrite the elements; shape and dtype stay."""
        _copy(np.asarray(np_arr), self.numpy(), "update_inplace")


class IOBinding:
    """Inputs and outputs by name, for `InferenceSession.run_with_iobinding`.

    Inputs are read in place. An output that is bound to memory is copied there after the
    run; others are new arrays.
    """

    def __init__(self, run: Callable[[list[str], Mapping[str, Any]], list[Any]]) -> None:
        self._run = run
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Array | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        self._inputs[name] = np.asarray(arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._inputs[name] = ortvalue._value

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any,
        shape: Sequence[int], buffer_ptr: int,
    ) -> None:  # fmt: skip
        """Bind memory at an address, which the caller keeps alive."""
        _check_device(device_type, device_id)
        self._inputs[name] = _at_address(buffer_ptr, shape, element_type)

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Ask for an output, into memory at an address or, without one, as a new array."""
        _check_device(device_type, device_id)
        given = None if buffer_ptr is None else _at_address(buffer_ptr, shape, element_type)
        self._outputs[name] = given

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._outputs[name] = ortvalue.numpy() if ortvalue.has_value() else None

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results.clear()

    def synchronize_inputs(self) -> None:
        """Nothing: the processor's memory needs no waiting."""

    def synchronize_outputs(self) -> None:
        """Nothing: a run returns when its outputs are there."""

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return copies of the outputs of the last run."""
        return [np.array(v.numpy()) if v.is_tensor() else list(v._value) for v in self._results]

    def run(self) -> None:
        """Run the session on what is bound."""
        if not self._outputs:
            raise InputError("no output is bound", remedy="call bind_output(name) first")
        found = self._run(list(self._outputs), self._inputs)
        self._results = [
            OrtValue(result if place is None else _copy(np.asarray(result), place, name))
            for (name, place), result in zip(self._outputs.items(), found, strict=True)
        ]


def _element_dtype(element_type: Any) -> np.dtype[Any]:
    return numpy_dtype(element_type) if isinstance(element_type, int) else np.dtype(element_type)


def _at_address(address: int, shape: Sequence[int] | None, element_type: Any) -> Array:
    if shape is None or element_type is None:
        raise InputError(
            "memory at an address is bound without its shape or element type",
            remedy="give element_type= and shape= with buffer_ptr=",
        )
    dtype, shape = _element_dtype(element_type), tuple(int(extent) for extent in shape)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    held: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(held, dtype).reshape(shape)


def _copy(source: Array, target: Array, name: str) -> Array:
    if (source.shape, source.dtype) != (target.shape, target.dtype):
        raise InputError(
            f"{name}: {source.dtype}{list(source.shape)} does not fit the memory that is bound, "
            f"{target.dtype}{list(target.shape)}",
            remedy="bind memory of that shape and dtype, or none",
        )
    target[...] = source
    return target


def _check_device(device_type: str, device_id: int) -> None:
    if device_type not in ("cpu", "cpu_pinned") or device_id:
        raise UnsupportedError(
            f"device {device_type}:{device_id}: rlx computes on the processor",
            remedy='bind arrays of NumPy, or name the device "cpu"',
        )

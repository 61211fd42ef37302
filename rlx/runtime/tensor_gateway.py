"""The fast call path for tensors of another framework, through DLPack's exchange API.

See `tensor_gateway.c`. A class of tensors has the API as `__dlpack_c_exchange_api__`, from
DLPack 1.2 on (PyTorch 2.10). Calls with other objects return None, and take the slow path.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.runtime.executable import Executable
from rlx.runtime.gateway import find_gateway

_CODES = {
    "i": 0, "u": 1, "f": 2, "c": 5,
}  # fmt: skip
_OTHER_CODES = {DType.BF16: 4, DType.BOOL: 6, DType.F8_E4M3FN: 10, DType.F8_E5M2: 12}
"""DLPack's codes of element types."""


class TensorCall(Protocol):
    """Runs on tensors that are exactly right, or returns None and has done nothing."""

    ready: bool

    def __call__(self, *values: Any) -> list[Any] | None: ...

    def remember(self, values: list[Any]) -> bool:
        """Remember which versions of the residents `setup` has read; calls are fast from then."""
        ...


@dataclass(frozen=True, slots=True)
class TensorPort:
    """One input or output: its place among the arguments, its shape and order of axes."""

    argument: int
    shape: tuple[int, ...]
    dtype: DType
    order: tuple[int, ...]
    """The axes of the tensor from the outermost to the innermost in memory."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis."""
        sizes = [self.shape[axis] for axis in self.order]
        steps = [1, *itertools.accumulate(reversed(sizes[1:]), lambda a, b: a * b)]
        found = dict(zip(reversed(self.order), steps, strict=False))
        return tuple(found[axis] for axis in range(len(self.shape)))


def make_tensor_call(
    executable: Executable,
    classes: tuple[type, type],
    arguments: int,
    inputs: Sequence[TensorPort],
    outputs: Sequence[TensorPort],
    residents: Sequence[TensorPort],
    results: Sequence[tuple[int, int, Any]],
) -> TensorCall | None:
    """Return the fast path into `executable`; None where there is none.

    `classes` are those of tensors, the first one with the exchange API. `inputs` and `outputs` are
    those of the executable, in order; `residents` are tensors that its params were set from. A
    result is the number of an output, of an argument, or an object; other numbers are -1.
    """
    exchange = getattr(classes[0], "__dlpack_c_exchange_api__", None)
    gateway: Any = find_gateway("tensor_gateway")
    found = executable.ports()
    if exchange is None or gateway is None or found is None:
        return None
    entry, ins, outs = found
    ports = (
        *(_facts(port, own[2], own[3]) for port, own in zip(inputs, ins, strict=True)),
        *(_facts(port, own[2], own[3]) for port, own in zip(outputs, outs, strict=True)),
    )
    kept = tuple((port.argument, _bytes(port)) for port in residents)
    try:
        made: TensorCall = gateway.Call(
            entry, exchange, *classes, arguments, ports, len(inputs), kept, tuple(results)
        )
    except NotImplementedError:  # of another version
        return None
    return made


def _facts(port: TensorPort, place: int, number: int) -> tuple[Any, ...]:
    code = _OTHER_CODES.get(port.dtype)
    numpy = port.dtype.numpy
    if code is None:
        code = _CODES[numpy.kind]
    return port.argument, code, numpy.itemsize * 8, port.shape, port.strides, place, number


def _bytes(port: TensorPort) -> int:
    total: int = port.dtype.numpy.itemsize
    for extent in port.shape:
        total *= extent
    return total

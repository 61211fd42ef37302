"""A compiled program of tensors: how it is called, and which tensors are laid out once.

Params of a program for inference are *residents*: what depends on them alone (packed weights,
folded normalizations) is computed once for each version of them, not at every call. A version is
a tensor's address, PyTorch's count of changes in place, and a sample of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import torch

from rlx.dataclass import dataclass
from rlx.ir.shape import evaluate
from rlx.runtime.executable import Executable
from rlx.runtime.tensor_gateway import TensorCall, TensorPort, make_tensor_call
from rlx.signal_safe_lock import reentrant_lock
from rlx.torch.draws import by_torch
from rlx.torch.layouts import Order, inverse
from rlx.torch.types import as_array, as_tensor

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]

_CLASSES = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor that a program reads: its place among the arguments, and its name in the graph."""

    place: int
    name: str
    type: Any
    order: Order


@dataclass
class Variant:
    """A program for sizes within bounds."""

    run: Callable[..., Any]
    inputs: Sequence[TensorArgument]
    residents: Sequence[TensorArgument]
    outputs: list[Any]
    """What is returned: ("tensor", i), ("input", i), ("extent", e), ("number", n) or None."""
    orders: list[Order]
    """The order of axes of each tensor that is made."""
    draws: list[Any]
    """What PyTorch draws: pairs of a draw and its shape."""
    arguments: int
    """How many arguments the graph has."""
    is_plain: bool
    """All inputs are plain dense tensors of fixed shapes: the fast path may take them."""
    changed: dict[int, int] = field(default_factory=dict)
    """Residents that differed at each of the last calls, and at how many of them."""
    _keys: list[Key] = field(default_factory=list)
    _lock: Any = field(default_factory=reentrant_lock)
    _fast: TensorCall | None = None

    def __call__(self, args: list[Any], binding: dict[str, int]) -> list[Any]:
        """Run on tensors and sizes that the direct call does not take."""
        drawn = [
            by_torch(draw, tuple(evaluate(n, binding) for n in shape)) for draw, shape in self.draws
        ]
        if not drawn:
            return self._slow(args, binding)
        given = [*args, *drawn]
        results = self.fast(*given)
        return self._slow(given, binding) if results is None else results

    def fast(self, *args: Any) -> list[Any] | None:
        """Run on tensors that are exactly right; None, and nothing is done, for others."""
        if self._fast is None or (results := self._fast(*args)) is None:
            return None
        if self.changed:
            self.changed.clear()
        return results

    @property
    def direct(self) -> Callable[..., list[Any] | None]:
        """`fast`, for callers that draw nothing: the native call itself, where that is enough."""
        if self.draws or self._fast is None:
            return nothing_done
        return self.fast if self.residents else self._fast

    def _slow(self, args: list[Any], binding: dict[str, int]) -> list[Any]:
        with self._lock:
            if self.residents:
                self._set_residents(args)
            found = self.run(*(self._array(args, each) for each in self.inputs))
            self._heat(args)
        return [self._result(output, found, args, binding) for output in self.outputs]

    def _result(self, output: Any, found: Any, args: list[Any], binding: dict[str, int]) -> Any:
        if output is None:
            return None
        kind, what = output
        if kind == "tensor":
            order = self.orders[what]
            return as_tensor(np.transpose(found[what], inverse(order)))
        if kind == "input":
            return args[what]
        return evaluate(what, binding) if kind == "extent" else what

    def _array(self, args: list[Any], each: TensorArgument) -> Array:
        """Return an argument as an array; a token of effects, which is None, as an empty one."""
        if args[each.place] is None:
            return np.zeros(each.type.shape, each.type.dtype.numpy)
        return as_array(args[each.place]).transpose(each.order)

    # Residents

    def _set_residents(self, args: list[Any]) -> None:
        """Set the params that are not those of the last call."""
        keys = [_key(args[each.place]) for each in self.residents]
        known = self._keys or [()] * len(keys)
        if self._fast is not None:
            self._fast.ready = False
        for each, key, old in zip(self.residents, keys, known, strict=True):
            if key == old:
                self.changed.pop(each.place, None)
                continue
            if self._keys:
                self.changed[each.place] = self.changed.get(each.place, 0) + 1
            array = as_array(args[each.place])
            array.flags.writeable = False  # `setup` may read it there
            assert isinstance(self.run, Executable), "params are those of executables"
            self.run.set_param(each.name, array.transpose(each.order))
        self._keys = keys

    def _heat(self, args: list[Any]) -> None:
        """Prepare the fast path for the next call."""
        if not self.is_plain or not isinstance(self.run, Executable):
            return
        if self._fast is None:
            self._fast = self._make_fast(self.run)
        if self._fast is not None and not self._fast.remember(args):
            self._fast = None
            self.is_plain = False

    def _make_fast(self, run: Executable) -> TensorCall | None:
        outputs = [
            TensorPort(-1, _logical(type.shape, order), type.dtype, order)
            for type, order in zip(run.signature.outputs, self.orders, strict=True)
        ]
        results = [_description(output) for output in self.outputs]
        arguments = self.arguments + len(self.draws)
        return make_tensor_call(
            run, _CLASSES, arguments, [_port(each) for each in self.inputs], outputs,
            [_port(each) for each in self.residents], results,
        )  # fmt: skip


def nothing_done(*_: Any) -> None:
    """The call of a program that has no fast path."""


def _logical(shape: Any, order: Order) -> tuple[int, ...]:
    return tuple(int(shape[order.index(axis)]) for axis in range(len(order)))


def _port(each: TensorArgument) -> TensorPort:
    return TensorPort(
        each.place, _logical(each.type.shape, each.order), each.type.dtype, each.order
    )


def _description(output: Any) -> tuple[int, int, Any]:
    if output is None:
        return -1, -1, None
    kind, what = output
    if kind == "tensor":
        return what, -1, None
    return (-1, what, None) if kind == "input" else (-1, -1, what)


def _key(tensor: torch.Tensor) -> Key:
    """Return a tensor's version."""
    array = as_array(tensor)
    sample = array[tuple(slice(None, None, max(1, n // 4)) for n in array.shape)]
    return tensor.data_ptr(), tensor._version, sample.tobytes()

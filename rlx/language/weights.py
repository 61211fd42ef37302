"""The tensors of a GGUF file as params of a graph: packed where they are, rows as stored."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.linalg import swapped
from rlx.language.config import DecoderConfig
from rlx.language.lora import Adapters
from rlx.language.model_file import ModelFile
from rlx.language.params import Accuracy, param_value, rope_order

Array = NDArray[Any]


@dataclass(slots=True)
class Weights:
    """Declares tensors as params of a graph as they are asked for, and keeps their values."""

    graph: Graph
    file: ModelFile
    config: DecoderConfig
    adapters: Adapters | None = None
    accuracy: Accuracy = "exact"
    values: dict[str, Array] = field(default_factory=dict)
    _params: dict[str, Value] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.file.tensors

    def vector(self, name: str, size: int) -> Value:
        """Return a tensor of one axis, as f32."""
        self._require_shape(name, (size,))
        return self._param(name)

    def rows(self, name: str) -> int:
        """Return the rows of a matrix: 0 if there is none of this name."""
        return self.file.tensors[name].shape[0] if self.has(name) else 0

    def whole(self, name: str, size: int) -> Value:
        """Return all elements of a tensor of so many, in one axis, as f32."""
        shape = self.file.tensors[name].shape if self.has(name) else ()
        if math.prod(shape) != size:
            self._require_shape(name, (size,))
        result: Value = ops.reshape(self.array(name, shape), shape=(size,))
        return result

    def array(self, name: str, shape: tuple[int, ...]) -> Value:
        """Return a tensor as f32: decoded in `setup` where it is packed."""
        self._require_shape(name, shape)
        kind = self.file.element_type(name).blocks
        param = self._param(name)
        return param if kind is None else ops.dequantize_blocks(param, scheme=kind.name)

    def linear(self, x: Value, name: str, rows: int) -> Value:
        """Return `x @ W^T`, plus adapter and bias if there are any."""
        result = self._product(x, f"{name}.weight", rows)
        if self.adapters is not None and f"{name}.lora_a" in self.adapters.values:
            result = result + self._adapted(x, name, rows)
        if self.has(f"{name}.bias"):
            result = result + self.vector(f"{name}.bias", rows)
        return result

    def experts(self, x: Value, name: str, chosen: Value, rows: int) -> Value:
        """Return the product of each row with the matrix of a stack that it has chosen.

        Plus the bias of that matrix, if there are any.
        """
        self._require_shape(f"{name}.weight", (self.config.experts, rows, int(x.shape[-1])))
        kind = self.file.element_type(f"{name}.weight").blocks
        stack = self._param(f"{name}.weight")
        if kind is None:
            turned = ops.transpose(stack, perm=(0, 2, 1))
            product = ops.grouped_matmul(x, turned, chosen)
        else:
            product = ops.grouped_dequant_matmul(x, stack, chosen, scheme=kind.name)
        if not self.has(f"{name}.bias"):
            return product
        biases = self.array(f"{name}.bias", (self.config.experts, rows))
        result: Value = product + ops.gather(biases, chosen, axis=0)
        return result

    def embedded(self, tokens: Value) -> Value:
        """Return the rows of the embedding table for `tokens`: decoded after they are gathered."""
        name = "token_embd.weight"
        self._require_shape(name, (self.config.vocabulary, self.config.hidden))
        rows = ops.gather(self._param(name), tokens, axis=0)
        kind = self.file.element_type(name).blocks
        if kind is None:
            return rows
        return ops.dequantize_blocks(rows, scheme=kind.name)

    def _product(self, x: Value, name: str, rows: int) -> Value:
        columns = x.shape[-1]
        assert isinstance(columns, int)
        self._require_shape(name, (rows, columns))
        kind, param = self.file.element_type(name).blocks, self._param(name)
        if kind is None:
            plain: Value = ops.matmul(x, swapped(param))
            return plain
        rounds = self.accuracy == "int8"
        multiply = ops.int8_dequant_matmul if rounds else ops.dequant_matmul
        product: Value = multiply(x, param, scheme=kind.name)
        return product

    def _adapted(self, x: Value, name: str, rows: int) -> Value:
        """Return what the adapter of a matrix gives."""
        assert self.adapters is not None
        factors = []
        rank = self.adapters.lora.rank
        for part, shape in (("lora_a", (x.shape[-1], rank)), ("lora_b", (rank, rows))):
            value = self.adapters.values[f"{name}.{part}"]
            if value.shape != shape:
                raise FormatError(
                    f"adapter {name}.{part} has shape {value.shape}; for this model's matrix "
                    f"it is {shape}",
                    remedy="use adapters that were trained for this model",
                )
            factors.append(self._param(f"{name}.{part}"))
        narrow = ops.matmul(x, factors[0]) * self.adapters.lora.scale
        product = ops.matmul(narrow, factors[1])
        order = rope_order(self.config, name)
        if order is None:
            return product
        turned: Value = ops.gather(product, self.graph.constant(order.astype("i4")), axis=1)
        return turned

    def _param(self, name: str) -> Value:
        if name not in self._params:
            value = self.values[name] = param_value(self.file, self.config, self.adapters, name)
            self._params[name] = self.graph.param(name, value.shape, value.dtype.name)
        return self._params[name]

    def _require_shape(self, name: str, shape: tuple[int, ...]) -> None:
        info = self.file.tensors.get(name)
        if info is None or info.shape != shape:
            found = "is missing" if info is None else f"has shape {info.shape}"
            raise FormatError(
                f"{self.file.path}: tensor {name!r} {found}; it must have shape {shape}",
                remedy="use the file of a language model, as its maker wrote it",
            )

"""ONNX's standard backend interface, on which its own test suite runs.

import rlx.onnx.backend as backend
outputs = backend.run_model(model, inputs)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from rlx.onnx.session import InferenceSession


class PreparedModel(BackendRep):
    """A model ready to run on inputs in order, or by name."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        names = [argument.name for argument in self._session.get_inputs()]
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        feed = inputs if isinstance(inputs, dict) else dict(zip(names, inputs, strict=False))
        results = self._session.run(None, feed)
        outputs = [argument.name for argument in self._session.get_outputs()]
        made: tuple[Any, ...] = namedtupledict("Outputs", outputs)(*results)
        return made


class RlxBackend(Backend):
    """Compiles models with rlx."""

    @classmethod
    def prepare(
        cls, model: Any, device: str = "CPU", *, backend: str = "auto", **_: Any
    ) -> PreparedModel:
        del device
        return PreparedModel(InferenceSession(model, backend=backend))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        del outputs_info
        version = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        return cls.run_model(_model_of(node, inputs, version), inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def _model_of(node: Any, inputs: Sequence[Any], version: int) -> Any:
    """Return a model of one node."""
    names = [name for name in node.input if name]
    made = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.asarray(x).shape
        )
        for name, x in zip(names, inputs, strict=False)
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = onnx.helper.make_graph([node], "node", made, outputs)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)]
    )


is_compatible = RlxBackend.is_compatible
prepare = RlxBackend.prepare
run_model = RlxBackend.run_model
run_node = RlxBackend.run_node
supports_device = RlxBackend.supports_device

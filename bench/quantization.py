"""Eight bits against f32 and against ONNX Runtime and OpenVINO, on one q/dq model each.

    python -m bench.quantization

Products and convolutions by constant weights: the input is f32, rounded with one scale, weights
have a scale per column or channel, the result is f32. One thread; all take turns, and the least
time of many counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import openvino
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import rlx
from rlx.ir.graph import Graph
from rlx.quantization.rounding import quantized_weights

Array = NDArray[Any]
Call = Callable[[], Any]
ROUNDS, TURNS = 12, 6
SCALE = 4.0 / 127.0


@dataclass(frozen=True)
class Case:
    """A product (`stride` 0) or a convolution with padding that keeps its extent."""

    name: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 0

    @property
    def padding(self) -> int:
        return self.w[-1] // 2

    @property
    def axis(self) -> int:
        return 0 if self.stride else 1


CASES = (
    Case("128x768x3072", (128, 768), (768, 3072)),
    Case("512x512x512", (512, 512), (512, 512)),
    Case("16x384x1536", (16, 384), (384, 1536)),
    Case("conv 3x3 64 at 56", (1, 64, 56, 56), (64, 64, 3, 3), 1),
    Case("conv 1x1 256-64 at 56", (1, 256, 56, 56), (64, 256, 1, 1), 1),
    Case("conv 3x3 256 at 14", (1, 256, 14, 14), (256, 256, 3, 3), 1),
    Case("conv 1x1 512-1024 /2", (1, 512, 28, 28), (1024, 512, 1, 1), 2),
)


def ours(case: Case, x: Array, w: Array, *, rounded: bool) -> Call:
    graph = Graph("case")
    value = graph.input("x", case.x, "f32")
    codes, factors = quantized_weights(w, case.axis)
    weights = graph.param("w", case.w, "i8" if rounded else "f32")
    if rounded:
        value = graph.cast(graph.quantize(value, scales=(SCALE,)), to="i32")
        weights = graph.cast(weights, to="i32")
    if case.stride:
        pads = ((case.padding,) * 2,) * 2
        made = graph.conv(value, weights, stride=(case.stride,) * 2, padding=pads)
    else:
        made = graph.matmul(value, weights)
    if rounded:
        column = (factors * np.float32(SCALE)).reshape(-1, *(1,) * (len(case.x) - 2))
        made = graph.cast(made, to="f32") * graph.constant(column)
    graph.set_outputs([made])
    run = rlx.compile(graph, params={"w": codes if rounded else w}, threads=1)
    return lambda: run(x)


def model(case: Case, w: Array) -> bytes:
    """Return the q/dq model."""
    codes, factors = quantized_weights(w, case.axis)
    arrays = {"s": np.float32(SCALE), "z": np.int8(0), "w": codes, "sw": factors}
    arrays["zw"] = np.zeros(factors.shape, np.int8)
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=case.axis),
    ]
    attributes: dict[str, Any] = {}
    if case.stride:
        attributes = {"strides": [case.stride] * 2, "pads": [case.padding] * 4}
    kind = "Conv" if case.stride else "MatMul"
    nodes.append(helper.make_node(kind, ["d", "dw"], ["y"], **attributes))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", case.x), ("y", None))]  # fmt: skip
    body = helper.make_graph(nodes, "case", ends[:1], ends[1:], tensors)
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return bytes(made.SerializeToString())


def onnxruntime_call(content: bytes, x: Array) -> Call:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def openvino_call(content: bytes, x: Array) -> Call:
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(core.read_model(content), "CPU", settings)
    request: Any = compiled.create_infer_request()
    return lambda: request.infer({"x": x}, share_inputs=True, share_outputs=True)


def least(calls: Sequence[Call]) -> list[float]:
    """Return the least seconds of each, over turns of all."""
    best = [float("inf")] * len(calls)
    for call in calls:
        call()
    for _ in range(ROUNDS):
        for number, call in enumerate(calls):
            for _ in range(TURNS):
                started = time.perf_counter()
                call()
                best[number] = min(best[number], time.perf_counter() - started)
    return best


def main() -> None:
    random = np.random.default_rng(0)
    print("| case | f32 | int8 | ONNX Runtime | OpenVINO | f32 / int8 | int8 / best peer |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        x = random.normal(size=case.x).astype(np.float32)
        w = random.normal(size=case.w).astype(np.float32)
        content = model(case, w)
        calls = [ours(case, x, w, rounded=False), ours(case, x, w, rounded=True),
                 onnxruntime_call(content, x), openvino_call(content, x)]  # fmt: skip
        times = least(calls)
        shown = " | ".join(f"{seconds * 1e6:.0f} us" for seconds in times)
        against = times[1] / min(times[2:])
        print(f"| {case.name} | {shown} | {times[0] / times[1]:.2f} | {against:.2f} |", flush=True)


if __name__ == "__main__":
    main()

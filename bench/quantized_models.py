"""Models quantized by ONNX Runtime's own tools, compared with ONNX Runtime.

    python -m bench.quantized_models [model ...] [--forms dynamic qdq operators] [--threads 1 2]

Small float models (`MODELS`) and magika's are quantized in three forms: dynamically, statically in
pairs of `QuantizeLinear` and `DequantizeLinear` (bytes without a sign, weights by channel), and in
quantized operators. Both run in one process, in turns; times are the best of all calls. Memory is
what a process of its own grew by once it had run the model, with rlx's program in the cache. The
error is the largest difference, by the largest number: of one step of a rounding, if any.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.session_times import least_seconds
from bench.text import print_table
from examples.packaged import package_directory

Feed = Mapping[str, NDArray[Any]]
FORMS = ("dynamic", "qdq", "operators")
SECONDS = 0.4
"""Of calls, of both peers together."""
_RANDOM = np.random.default_rng(0)


def _numbers(*shape: int) -> NDArray[Any]:
    fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
    drawn: NDArray[Any] = (_RANDOM.normal(size=shape) / max(1, fan_in) ** 0.5).astype(np.float32)
    return drawn


class Network:
    """A float model, node by node."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, array: Any) -> str:
        import onnx

        name = f"weight_{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, kind: str, *operands: str, **attributes: Any) -> str:
        import onnx

        name = f"value_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, operands, [name], name, **attributes))
        return name

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        product = self.add("MatMul", x, self.weight(_numbers(inputs, outputs)))
        return self.add("Add", product, self.weight(0.1 * _numbers(outputs)))

    def conv(self, x: str, inputs: int, outputs: int, taps: int = 3, **attributes: Any) -> str:
        weights = 1.4 * _numbers(outputs, inputs // attributes.get("group", 1), taps, taps)
        bias, pads = 0.1 * _numbers(outputs), [taps // 2] * 4
        return self.add("Conv", x, self.weight(weights), self.weight(bias), pads=pads, **attributes)

    def save(self, path: Path, feed: Feed, result: str) -> None:
        import onnx

        types = {"float32": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64}
        inputs = [
            onnx.helper.make_tensor_value_info(name, types[str(x.dtype)], x.shape)
            for name, x in feed.items()
        ]
        output = onnx.helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)
        graph = onnx.helper.make_graph(self.nodes, path.stem, inputs, [output], self.weights)
        opsets = [onnx.helper.make_opsetid("", 17)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def _mlp(n: Network) -> str:
    x = n.add("Relu", n.linear("x", 784, 512))
    return n.linear(n.add("Relu", n.linear(x, 512, 512)), 512, 10)


def _resnet(n: Network) -> str:
    x, channels = n.add("Relu", n.conv("x", 3, 32)), 32
    for outputs, stride in ((32, 1), (64, 2), (128, 2)):
        strides = [stride, stride]
        y = n.add("Relu", n.conv(x, channels, outputs, strides=strides))
        y = n.conv(y, outputs, outputs)
        x = x if stride == 1 else n.conv(x, channels, outputs, 1, strides=strides)
        x, channels = n.add("Relu", n.add("Add", x, y)), outputs
    return n.linear(n.add("Flatten", n.add("GlobalAveragePool", x)), 128, 10)


def _mobile(n: Network) -> str:
    x, channels = n.add("Relu", n.conv("x", 3, 16, strides=[2, 2])), 16
    for outputs, stride in ((24, 2), (24, 1), (40, 2), (40, 1)):
        wide = 4 * channels
        y = n.add("Relu", n.conv(x, channels, wide, 1))
        y = n.add("Relu", n.conv(y, wide, wide, strides=[stride, stride], group=wide))
        y = n.conv(y, wide, outputs, 1)
        x, channels = n.add("Add", x, y) if channels == outputs and stride == 1 else y, outputs
    return n.linear(n.add("Flatten", n.add("GlobalAveragePool", x)), 40, 10)


def _encoder(n: Network) -> str:
    width, heads = 256, 4
    x = n.add("Gather", n.weight(_RANDOM.normal(size=(1000, width)).astype(np.float32)), "x")
    split, joined = (
        n.weight(np.array(s)) for s in ([0, -1, heads, width // heads], [0, -1, width])
    )
    half, one, root = (n.weight(np.float32(v)) for v in (0.5, 1.0, 2**0.5))

    def norm(value: str) -> str:
        ones, zeros = n.weight(np.ones(width, np.float32)), n.weight(np.zeros(width, np.float32))
        return n.add("LayerNormalization", value, ones, zeros)

    def of_heads(value: str, *perm: int) -> str:
        rows = n.add("Reshape", n.linear(value, width, width), split)
        return n.add("Transpose", rows, perm=perm)

    for _ in range(4):
        y = norm(x)
        query, key, value = (of_heads(y, *p) for p in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = n.add(
            "Softmax", n.add("Mul", n.add("MatMul", query, key), n.weight(np.float32(0.125)))
        )
        read = n.add("Transpose", n.add("MatMul", scores, value), perm=(0, 2, 1, 3))
        x = n.add("Add", x, n.linear(n.add("Reshape", read, joined), width, width))
        y = n.linear(norm(x), width, 4 * width)
        curve = n.add("Add", n.add("Erf", n.add("Div", y, root)), one)
        x = n.add("Add", x, n.linear(n.add("Mul", n.add("Mul", y, half), curve), 4 * width, width))
    return norm(x)


MODELS: dict[str, tuple[Callable[[Network], str], Callable[[], Feed]]] = {
    "mlp_256_rows": (_mlp, lambda: {"x": _numbers(256, 784) * 16}),
    "mlp_1_row": (_mlp, lambda: {"x": _numbers(1, 784)}),
    "resnet_32x32": (_resnet, lambda: {"x": _numbers(1, 3, 32, 32) * 55}),
    "mobile_96x96": (_mobile, lambda: {"x": _numbers(1, 3, 96, 96) * 166}),
    "encoder_64_tokens": (_encoder, lambda: {"x": _RANDOM.integers(0, 1000, (1, 64))}),
}
"""How a model is made, and inputs of its size."""


def _magika() -> Path:
    return package_directory("magika", "magika") / "models" / "standard_v3_3" / "model.onnx"


def feed_of(name: str) -> Feed:
    if name == "magika":
        return {"bytes": _RANDOM.integers(0, 256, (1, 2048)).astype(np.int32)}
    return MODELS[name][1]()


def quantized(name: str, form: str, directory: Path) -> Path:
    """Write a model in one of the forms, with the same numbers in every run; return where it is."""
    _RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state
    from onnxruntime import quantization as tools
    from onnxruntime.quantization.shape_inference import quant_pre_process

    float_model, made = directory / f"{name}.onnx", directory / f"{name}_{form}.onnx"
    if name == "magika":
        float_model = _magika()
    elif not float_model.exists():
        network = Network()
        network.save(float_model, feed_of(name), MODELS[name][0](network))
    ready = directory / f"{name}_ready.onnx"
    quant_pre_process(str(float_model), str(ready), skip_symbolic_shape=True)
    if form == "dynamic":
        tools.quantize_dynamic(ready, made)
        return made
    feeds = iter([feed_of(name) for _ in range(4)])

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> Feed | None:
            return next(feeds, None)

    kind = tools.QuantFormat.QDQ if form == "qdq" else tools.QuantFormat.QOperator
    by_channel = form == "qdq" and name != "magika"  # for which the tool fails
    types = {"activation_type": tools.QuantType.QUInt8, "weight_type": tools.QuantType.QInt8}
    tools.quantize_static(ready, made, Reader(), kind, per_channel=by_channel, **types)
    return made


def session_of(peer: str, path: Path | bytes, threads: int) -> Any:
    if peer == "rlx":
        from rlx.onnx import InferenceSession

        return InferenceSession(path, threads=threads)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def measured(path: Path, feed: Feed, threads: int) -> tuple[dict[str, float], float]:
    """Return the best seconds of a call by peer, and the largest error of rlx."""
    sessions = {peer: session_of(peer, path, threads) for peer in ("rlx", "ort")}
    found, expected = (session.run(None, feed) for session in sessions.values())
    error = max(
        float(np.abs(ours - theirs).max() / np.abs(theirs).max())
        for ours, theirs in zip(found, expected, strict=True)
    )
    best = least_seconds(sessions, feed, SECONDS, clock=time.perf_counter, repeats=10)
    return best, error


def resident_megabytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def grown(peer: str, path: Path, name: str, threads: int) -> int:
    """Return the megabytes that a process has grown by after it ran a model."""
    command = [sys.executable, "-m", "bench.quantized_models", name, "--grow", peer, str(path)]
    done = subprocess.run(
        [*command, "--threads", str(threads)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


def _grow(peer: str, path: Path, name: str, threads: int) -> None:
    __import__("rlx.onnx" if peer == "rlx" else "onnxruntime")
    before, session = resident_megabytes(), session_of(peer, path, threads)
    for _ in range(3):
        session.run(None, feed_of(name))
    print(resident_megabytes() - before)


def rows(names: Sequence[str], forms: Sequence[str], threads: Sequence[int]) -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            for form in forms:
                path, feed = quantized(name, form, Path(directory)), feed_of(name)
                for count in threads:
                    best, error = measured(path, feed, count)
                    times = [f"{best[peer] * 1e6:.0f}" for peer in best]
                    memory = [str(grown(peer, path, name, count)) for peer in best]
                    ratio = f"{best['rlx'] / best['ort']:.2f}"
                    yield [name, form, str(count), *times, ratio, *memory, f"{error:.0e}"]


COLUMNS = ["model", "form", "threads", "rlx us", "ONNX Runtime us", "rlx / ONNX Runtime",
           "rlx MB", "ONNX Runtime MB", "error"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="measure quantized models next to ONNX Runtime")
    parser.add_argument("models", nargs="*", default=[*MODELS, "magika"])
    parser.add_argument("--forms", nargs="*", default=FORMS)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--grow", nargs=2, metavar=("PEER", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(max(options.threads))
    if options.grow:
        peer, path = options.grow
        _grow(peer, Path(path), options.models[0], options.threads[0])
        return
    print_table(COLUMNS, rows(options.models, options.forms, options.threads))


if __name__ == "__main__":
    main()

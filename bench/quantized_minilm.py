"""MiniLM in eight bits next to ONNX Runtime and OpenVINO, on one q/dq model.

    python -m bench.quantized_minilm [--tokens 16 128]
    python -m bench.quantized_minilm --layers [--tokens 128]

The float model is exported from `examples.minilm` with its tokens fixed, and ONNX Runtime's own
tool writes the pairs of QuantizeLinear and DequantizeLinear: products by weights, one scale for
activations, one per column of weights. One thread; all take turns, and the least time counts.
`rlx.quantize` of the float model is measured, too.

`--layers` compares codes with ONNX Runtime's instead: of whole runs, and of every layer given the
same codes; and cosines with the float model over the corpus.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import rlx
import rlx.onnx
from bench.quantization import Call, least
from examples.minilm import SentenceTokenizer, build_graph, load_weights
from examples.sentence_embedding import CORPUS

Array = NDArray[Any]
Feed = dict[str, Array]


class _Sentences(CalibrationDataReader):  # type: ignore[misc]
    """The demo's corpus, for ONNX Runtime's tool."""

    def __init__(self, feeds: list[Feed]) -> None:
        self._feeds: Iterator[Feed] = iter(feeds)

    def get_next(self) -> Feed | None:
        return next(self._feeds, None)


def sentences(tokens: int) -> list[Feed]:
    """Return the corpus cut or filled to some tokens; long ones have many sentences."""
    tokenize, text, feeds = SentenceTokenizer(), " ".join(CORPUS), list[Feed]()
    for place, sentence in enumerate(CORPUS):
        long = sentence if tokens <= 32 else f"{sentence} {text[40 * place :]}"
        batch = tokenize([long], pad_to=256)
        feeds.append({"ids": batch.ids[:, :tokens], "mask": batch.mask[:, :tokens]})
    return feeds


def models(tokens: int, weights: dict[str, Array], feeds: list[Feed]) -> tuple[bytes, bytes]:
    """Return the model in floats and with pairs."""
    with tempfile.TemporaryDirectory() as directory:
        exact, rounded = Path(directory) / "exact.onnx", Path(directory) / "rounded.onnx"
        rlx.onnx.export(build_graph(tokens=tokens), exact, params=weights)
        quantize_static(
            exact, rounded, _Sentences(feeds), quant_format=QuantFormat.QDQ, per_channel=True,
            op_types_to_quantize=["MatMul"], activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8, extra_options={"MatMulConstBOnly": True},
        )  # fmt: skip
        return exact.read_bytes(), rounded.read_bytes()


def of_onnxruntime(content: bytes, feed: Feed) -> Call:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)[0]


def of_openvino(content: bytes, feed: Feed) -> Call:
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    request: Any = core.compile_model(core.read_model(content), "CPU", settings)
    request = request.create_infer_request()
    return lambda: request.infer(feed, share_inputs=True, share_outputs=True)[0]


def of_rlx(content: bytes, feed: Feed) -> Call:
    session = rlx.onnx.InferenceSession(content, threads=1)
    return lambda: session.run(None, feed)[0]


def quantized(tokens: int, weights: dict[str, Array], feeds: list[Feed]) -> Call:
    """Return MiniLM as `rlx.quantize` makes it."""
    done = rlx.quantize(build_graph(tokens=tokens), feeds, params=weights)
    run = rlx.compile(done.graph, params=done.params, threads=1)
    return lambda: run.run(feeds[0])[0]


def unfused(content: bytes) -> onnxruntime.InferenceSession:
    """Return ONNX Runtime's session without any of its rewrites."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def layers(rounded: bytes, feed: Feed) -> None:
    """Print how many codes differ from ONNX Runtime's, in whole runs and layer by layer."""
    model = onnx.load_from_string(rounded)
    nodes = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    codes, floats = ([str(name) for name in names] for names in zip(
        *((node.output[0], node.input[0]) for node in nodes), strict=True))  # fmt: skip
    model.graph.output.extend(_info(name, TensorProto.INT8) for name in codes)
    whole = model.SerializeToString()
    theirs = dict(zip(codes, unfused(whole).run(codes, feed), strict=True))
    ours = rlx.onnx.InferenceSession(whole, threads=1).run(codes, feed)
    shares = [float(np.mean(own != theirs[name])) for own, name in zip(ours, codes, strict=True)]
    cut = _cut(rounded, theirs, floats)
    given = {name: array for name, array in {**feed, **theirs}.items()
             if name in {i.name for i in onnx.load_from_string(cut).graph.input}}  # fmt: skip
    wanted = unfused(cut).run(floats, given)
    found = rlx.onnx.InferenceSession(cut, threads=1).run(floats, given)
    errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, wanted, strict=True)]
    scales = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    steps = [(scales[node.input[1]], scales[node.input[2]]) for node in nodes]
    rows = zip(found, wanted, steps, strict=True)
    other = sum(int(np.sum(_codes(a, *s) != _codes(b, *s))) for a, b, s in rows)
    print(
        f"whole runs: codes that differ, first to last layer: {shares[0]:.2%} to {shares[-1]:.2%}"
    )
    print(f"{len(nodes)} layers given the same codes: floats within {max(errors):.1e} (norm); "
          f"{other} of {sum(a.size for a in found)} codes differ")  # fmt: skip


def _codes(x: Array, scale: Array, zero: Array) -> Array:
    return np.asarray(np.clip(np.rint(x / scale) + zero, -128, 127))


def _info(name: str, kind: int, shape: tuple[int, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _cut(rounded: bytes, codes: Feed, floats: list[str]) -> bytes:
    """Return the model whose codes are inputs, and what they are rounded from its outputs."""
    model = onnx.load_from_string(rounded)
    kept = [node for node in model.graph.node if node.op_type != "QuantizeLinear"]
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.extend(kept)
    inputs = (_info(name, TensorProto.INT8, array.shape) for name, array in codes.items())
    model.graph.input.extend(inputs)
    names = dict.fromkeys(floats)
    model.graph.output.extend(_info(name, TensorProto.FLOAT) for name in names)
    return bytes(model.SerializeToString())


def cosines(exact: bytes, rounded: bytes, feeds: list[Feed]) -> None:
    """Print the cosines with the float model, over all sentences."""
    base = rlx.onnx.InferenceSession(exact, threads=1)
    names = {"rlx": rlx.onnx.InferenceSession(rounded, threads=1),
             "ONNX Runtime, nothing fused": unfused(rounded)}  # fmt: skip
    for name, session in names.items():
        found = [float(np.sum(session.run(None, feed)[0] * base.run(None, feed)[0]))
                 for feed in feeds]  # fmt: skip
        print(
            f"{name}: mean {np.mean(found):.4f}, least {min(found):.4f} of {len(found)} sentences"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--layers", action="store_true")
    given = parser.parse_args()
    if given.layers:
        for tokens in given.tokens:
            feeds = sentences(tokens)
            exact, rounded = models(tokens, load_weights(), feeds)
            layers(rounded, feeds[0])
            cosines(exact, rounded, feeds)
        return
    compare(given.tokens)


def compare(sizes: list[int]) -> None:
    """Print the times of all, and what is lost."""
    weights = load_weights()
    columns: tuple[str, ...] = ("f32", "int8", "rlx.quantize", "ONNX Runtime", "OpenVINO")
    columns += ("f32 / int8", "int8 / best peer", "cosine", "cosine of rlx.quantize")
    print("| tokens | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for tokens in sizes:
        feeds = sentences(tokens)
        exact, rounded = models(tokens, weights, feeds)
        calls = [of_rlx(exact, feeds[0]), of_rlx(rounded, feeds[0]),
                 quantized(tokens, weights, feeds), of_onnxruntime(rounded, feeds[0]),
                 of_openvino(rounded, feeds[0])]  # fmt: skip
        times = least(calls)
        cosines = [float(np.sum(np.asarray(calls[0]()) * np.asarray(c()))) for c in calls[1:3]]
        shown = " | ".join(f"{seconds * 1e3:.2f} ms" for seconds in times)
        ratios = f"{times[0] / times[1]:.2f} | {times[1] / min(times[3:]):.2f}"
        shown = f"{shown} | {ratios} | {cosines[0]:.4f} | {cosines[1]:.4f}"
        print(f"| {tokens} | {shown} |", flush=True)


if __name__ == "__main__":
    main()

"""Models of QuantizeLinear and DequantizeLinear run in integers, and agree with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx  # noqa: E402
import rlx.onnx  # noqa: E402
from rlx.passes.lowering.scaled_products import scaled_products  # noqa: E402
from rlx.runtime.lower import lower_for  # noqa: E402
from rlx.target import named_target  # noqa: E402
from tests.onnx.models import FLOAT, model, node  # noqa: E402

Array = np.ndarray[Any, Any]
STEP = 0.03


def network(codes: Any, zero: int) -> Any:
    """A convolution and a Gemm of transposed weights between pairs, as ONNX Runtime's tools write.

    The first bias is in floats, the second in i32 with a scale of its own.
    """
    random = np.random.default_rng(0)

    def weights(*shape: int) -> Array:
        return random.integers(-127, 128, shape).astype(np.int8)

    channels, columns = random.uniform(0.002, 0.02, (2, 16)).astype(np.float32)
    arrays = {
        "s": np.float32(STEP), "z": codes(zero),
        "w0": weights(16, 8, 3, 3), "s0": channels, "z0": np.zeros(16, np.int8),
        "b0": random.normal(size=16).astype(np.float32),
        "w1": weights(16, 256), "s1": columns, "z1": np.zeros(16, np.int8),
        "b1": random.integers(-2000, 2000, 16).astype(np.int32),
        "sb": columns * np.float32(STEP), "zb": np.zeros(16, np.int32),
    }  # fmt: skip
    nodes = [
        *_pair("x"),
        node("DequantizeLinear", ["w0", "s0", "z0"], ["w0_d"], axis=0),
        node("Conv", ["x_d", "w0_d", "b0"], ["h"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["h"], ["h_r"]),
        *_pair("h_r"),
        node("Flatten", ["h_r_d"], ["flat"]),
        node("DequantizeLinear", ["w1", "s1", "z1"], ["w1_d"], axis=0),
        node("DequantizeLinear", ["b1", "sb", "zb"], ["b1_d"], axis=0),
        node("Gemm", ["flat", "w1_d", "b1_d"], ["y"], transB=1),
    ]
    types = {"x": (FLOAT, (2, 8, 8, 8))}
    return model(nodes, types, ["y"], {n: np.asarray(a) for n, a in arrays.items()}, opset=19)


def _pair(name: str) -> list[Any]:
    return [
        node("QuantizeLinear", [name, "s", "z"], [f"{name}_q"]),
        node("DequantizeLinear", [f"{name}_q", "s", "z"], [f"{name}_d"]),
    ]


def images() -> Array:
    return np.random.default_rng(1).normal(size=(2, 8, 8, 8)).astype(np.float32)


@pytest.mark.parametrize(("codes", "zero"), [(np.int8, 0), (np.int8, -7), (np.uint8, 128)])
def test_products_are_of_codes_and_results_are_those_of_onnx_runtime(codes: Any, zero: int) -> None:
    made = network(codes, zero)
    graph = rlx.onnx.load(made)
    products = [n for n in scaled_products(graph).nodes if n.op.name in ("conv", "matmul")]
    assert [str(product.result.dtype) for product in products] == ["i32", "i32"]
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": images()})
    for backend in ("c", "llvm"):
        (found,) = rlx.onnx.InferenceSession(made, backend=backend).run(None, {"x": images()})
        # a sum of floats at half a step may be rounded to either code: one step of one input
        assert np.abs(found - expected).max() <= STEP * 0.02 * 127
        assert np.mean(np.abs(found - expected) < 1e-3) > 0.9


@pytest.mark.parametrize("level", ["x86-64-v4-vnni", "x86-64-v3", "x86-64"])
def test_weights_stay_bytes_in_the_compiled_model(level: str) -> None:
    """Where an instruction takes bytes; elsewhere they become floats when the model is set up."""
    target = named_target(level)
    schedule = str(lower_for(rlx.onnx.load(network(np.int8, 0)), target).schedule)
    setup, run = schedule.split("run:")
    widened = [
        text for text in ("f32[16, 8, 3, 3]", "f32[16, 256]", "f32[256, 16]") if text in setup
    ]
    assert bool(widened) == (not target.dots_bytes)
    assert ("i8[" in run) == target.dots_bytes


def test_long_vectors_of_zero_points_that_are_zero_change_nothing() -> None:
    weights: dict[str, Array] = {
        "q": np.ones((4, 2000), np.int8), "s": np.ones(2000, np.float32),
        "z": np.zeros(2000, np.int8), "x": np.zeros((1, 4), np.float32),
    }  # fmt: skip
    nodes = [node("DequantizeLinear", ["q", "s", "z"], ["w"]), node("MatMul", ["a", "w"], ["y"])]
    graph = rlx.onnx.load(model(nodes, {"a": (FLOAT, (1, 4))}, ["y"], weights))
    assert "sub" not in [n.op.name for n in graph.nodes]
    assert "z" not in [n.result.node.name for n in graph.nodes]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
def test_a_scale_of_one_element_is_that_of_the_whole_vector(count: int, kind: str) -> None:
    """Exporters write it so, with an axis that a vector lacks."""
    text = (
        f'<ir_version: 9, opset_import: ["" : 20]> g ({kind}[{count}] x, float[1] s) => '
        f"(float[{count}] y) {{ y = DequantizeLinear(x, s) }}"
    )
    session = rlx.onnx.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    x = np.arange(1, count + 1, dtype=kind)
    (y,) = session.run(None, {"x": x, "s": np.array([0.5], np.float32)})
    np.testing.assert_array_equal(y, x * np.float32(0.5))


@pytest.mark.parametrize("level", ["x86-64-v4-vnni", "x86-64-v3", "aarch64", "cortex-m4"])
@pytest.mark.parametrize("accuracy", [0, 4])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_a_few_bits_stay_packed(bits: int, accuracy: int, level: str) -> None:
    """They take the file's bytes once more, scales included, and none is a float."""
    inner, columns, size = 512, 256, 32
    random = np.random.default_rng(0)
    weights: dict[str, Array] = {
        "w": random.integers(0, 256, (columns, inner // size, size * bits // 8)).astype(np.uint8),
        "s": random.normal(size=columns * inner // size).astype(np.float32),
    }
    shape = {"K": inner, "N": columns, "bits": bits, "block_size": size}
    shape["accuracy_level"] = accuracy
    nodes = [node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **shape)]
    made = model(nodes, {"x": (FLOAT, (4, inner))}, ["y"], weights)
    made.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    program = lower_for(rlx.onnx.load(made), named_target(level))
    of_file = sum(array.nbytes for array in weights.values())
    assert program.plan.resident_bytes <= 2 * of_file + 1024
    assert not any(f"f32[{of}]" in str(program.schedule) for of in ("256, 512", "512, 256"))

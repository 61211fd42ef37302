"""Operators of ONNX Runtime's own domain: its results on drawn inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rlx.errors import UnsupportedError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402
from rlx.onnx.registry import OPERATORS  # noqa: E402
from tests.onnx.models import model, node  # noqa: E402

Array = np.ndarray[Any, Any]
DOMAIN = "com.microsoft"
Case = tuple[list[Any], dict[str, Any]]
"""Inputs, None for one that is left out, and attributes."""


def floats(r: Any, *shape: int) -> Array:
    return np.asarray(r.normal(size=shape), np.float32)


def some(r: Any, dtype: Any, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    return np.asarray(r.integers(limits.min, limits.max + 1, shape), dtype)


def scale(r: Any, *shape: int) -> Array:
    return np.asarray(r.uniform(0.005, 0.05, shape), np.float32)


def product(r: Any) -> Case:
    signed, per_column = r.choice([np.int8, np.uint8]), bool(r.integers(2))
    n = (9,) if per_column else ()
    return [some(r, np.uint8, 2, 5, 12), some(r, signed, 12, 9), scale(r), scale(r, *n),
            some(r, np.uint8), some(r, signed, *n), floats(r, 9)], {}  # fmt: skip


def dynamic_product(r: Any) -> Case:
    (_, b, _, b_scale, _, b_zero, bias), _ = product(r)
    return [floats(r, 2, 5, 12), b, b_scale, b_zero, bias], {}


def qgemm(r: Any) -> Case:
    turned = {"transA": int(r.integers(2)), "transB": int(r.integers(2))}
    a, b = some(r, np.uint8, 5, 12), some(r, np.int8, 12, 9)
    inputs = [a.T.copy() if turned["transA"] else a, scale(r), some(r, np.uint8),
              b.T.copy() if turned["transB"] else b, scale(r), np.int8(0),
              np.asarray(r.integers(-999, 999, 9), np.int32)]  # fmt: skip
    if r.integers(2):
        inputs += [np.float32(0.5), some(r, np.uint8)]
    return inputs, {**turned, "alpha": float(r.uniform(0.5, 2))}


def quantized(r: Any, dtype: Any, *shape: int) -> list[Any]:
    return [some(r, dtype, *shape), scale(r), some(r, dtype)]


def qbinary(r: Any) -> Case:
    dtype = r.choice([np.int8, np.uint8])
    last = 6 if r.integers(2) else 1
    return [*quantized(r, dtype, 3, 6), *quantized(r, dtype, last), np.float32(0.07),
            some(r, dtype)], {}  # fmt: skip


def qunary(**how: Any) -> Callable[[Any], Case]:
    def draw(r: Any) -> Case:
        dtype = r.choice([np.int8, np.uint8])
        return [*quantized(r, dtype, 3, 6), np.float32(0.01), some(r, dtype)], how

    return draw


def qconcat(r: Any) -> Case:
    axis = int(r.integers(2))
    parts = [quantized(r, np.uint8, 3, 6), quantized(r, np.uint8, 3, 6)]
    return [np.float32(0.04), some(r, np.uint8), *parts[0], *parts[1]], {"axis": axis}


def qwhere(r: Any) -> Case:
    return [r.integers(0, 2, (3, 6)).astype(bool), *quantized(r, np.uint8, 3, 6),
            *quantized(r, np.uint8, 6), np.float32(0.04), some(r, np.uint8)], {}  # fmt: skip


def qsoftmax(r: Any) -> Case:
    how = {"axis": int(r.integers(-1, 2)), "opset": int(r.choice([12, 13]))}
    return [*quantized(r, np.uint8, 3, 6), np.float32(1 / 256), np.uint8(0)], how


def qpool(r: Any) -> Case:
    last = int(r.integers(2))
    shape = (1, 7, 6, 3) if last else (1, 3, 7, 6)
    return [*quantized(r, np.uint8, *shape), np.float32(0.03), some(r, np.uint8)], {
        "kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "channels_last": last,
        "count_include_pad": int(r.integers(2)),
    }  # fmt: skip


def qglobal(r: Any) -> Case:
    last = int(r.integers(2))
    return [*quantized(r, np.uint8, 2, 5, 4, 3), np.float32(0.01), np.uint8(100)], {
        "channels_last": last
    }


def qconv(r: Any) -> Case:
    last = int(r.integers(2))
    x = quantized(r, np.uint8, *((1, 7, 6, 4) if last else (1, 4, 7, 6)))
    w = [some(r, np.int8, 6, 4, 3, 3), scale(r, 6), np.zeros(6, np.int8)]
    bias = np.asarray(r.integers(-999, 999, 6), np.int32)
    return [*x, *w, np.float32(0.5), some(r, np.uint8), bias], {
        "pads": [1, 0, 1, 1], "channels_last": last,
    }  # fmt: skip


def nbits(r: Any) -> Case:
    bits, size, k, n = int(r.choice([4, 8])), int(r.choice([16, 32, 64])), 64, 8
    blocks = k // size
    inputs = [floats(r, 2, 3, k), some(r, np.uint8, n, blocks, size * bits // 8),
              scale(r, n * blocks)]  # fmt: skip
    if r.integers(2):
        inputs.append(some(r, np.uint8, n * -(-blocks * bits // 8)))
    return inputs, {"K": k, "N": n, "bits": bits, "block_size": size}


def gathered(r: Any) -> Case:
    inputs = [some(r, np.uint8, 9, 32), r.integers(0, 9, (2, 3)), scale(r, 9, 4)]
    if r.integers(2):
        inputs.append(some(r, np.uint8, 9, 2))
    return inputs, {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}


def recurrent(r: Any) -> Case:
    direction = r.choice(["forward", "reverse", "bidirectional"])
    d, size, steps = 2 if direction == "bidirectional" else 1, 6, 4
    signed = r.choice([np.int8, np.uint8])

    def weights(rows: int) -> list[Any]:
        zero = np.full(d, 0 if signed is np.int8 else 128, signed)
        return [some(r, signed, d, rows, 4 * size), np.full(d, 0.004, np.float32), zero]

    w, w_scale, w_zero = weights(5)
    rec, r_scale, r_zero = weights(size)
    state = [None, None] if r.integers(2) else [floats(r, d, 1, size) * 0.5] * 2
    inputs = [floats(r, steps, 1, 5), w, rec, floats(r, d, 8 * size), None, *state, None, w_scale,
              w_zero, r_scale, r_zero]  # fmt: skip
    return inputs, {"direction": str(direction), "hidden_size": size}


B, S, H, P = 2, 4, 24, 3
HEADS = 3


def masks(r: Any, keys: int) -> Any:
    """A mask of keys, lengths, starts and lengths, or none."""
    ends = r.integers(2, keys + 1, B).astype(np.int32)
    starts = np.zeros(B, np.int32)
    whole = (np.arange(keys) < ends[:, None]).astype(np.int32)
    pairs = np.broadcast_to(whole[:, None], (B, S, keys)).copy()
    return [None, ends, np.concatenate([ends, starts]), whole, pairs][r.integers(5)]


def attention(r: Any) -> Case:
    past = floats(r, 2, B, HEADS, P, H // HEADS) if r.integers(2) else None
    keys = S if past is None else S + P
    mask = masks(r, keys)
    if past is not None and mask is not None and mask.ndim == 1:
        mask = None
    bias = floats(r, B, HEADS, S, keys) if mask is past is None else None
    return [floats(r, B, S, 10), floats(r, 10, 3 * H), floats(r, 3 * H), mask, past, bias], {
        "num_heads": HEADS, "unidirectional": int(r.integers(2)),
    }  # fmt: skip


def qattention(r: Any) -> Case:
    mask = masks(r, S)
    mask = mask if mask is None or mask.ndim == 2 else None
    return [some(r, np.uint8, B, S, 8), some(r, np.int8, 8, 3 * H), floats(r, 3 * H),
            np.float32(0.01), np.float32(0.01), mask, some(r, np.uint8), np.int8(0)], {
        "num_heads": HEADS, "unidirectional": int(r.integers(2)),
    }  # fmt: skip


def multi_head(r: Any) -> Case:
    kind = r.integers(3)
    mask = masks(r, S)
    mask = mask if mask is not None and mask.ndim == 2 else None
    how = {"num_heads": HEADS, "unidirectional": int(r.integers(2))}
    width = H // HEADS
    if kind == 0:
        return [floats(r, B, S, HEADS, 3, width), None, None, floats(r, 3 * H), mask], how
    q, k, v = (floats(r, B, S, H) for _ in range(3))
    if kind == 1:
        return [q, k, v, floats(r, 3 * H), mask, floats(r, 1, HEADS, S, S)], how
    past = [floats(r, B, HEADS, P, width) for _ in range(2)]
    return [q, k, v, None, None, floats(r, B, 1, S, S + P), *past], how


def grouped(r: Any) -> Case:
    heads, shared, width = 4, 2, 16
    new, past = (5, 0) if r.integers(2) else (1, 6)
    how: dict[str, Any] = {"num_heads": heads, "kv_num_heads": shared,
                           "do_rotary": int(r.integers(2)),
                           "rotary_interleaved": int(r.integers(2))}  # fmt: skip
    if r.integers(2):
        how["local_window_size"] = 3
    if r.integers(2):
        how["softcap"] = 2.0
    if r.integers(2):
        how["smooth_softmax"] = 1
    ends = np.full(B, past + new - 1, np.int32)
    if past:
        ends[0] -= 2
    q, k, v = (floats(r, B, new, n * width) for n in (heads, shared, shared))
    given = [np.concatenate([q, k, v], -1), None, None] if r.integers(2) else [q, k, v]
    caches = [floats(r, B, shared, past, width) for _ in range(2)]
    turns = [floats(r, 12, width // 2) for _ in range(2)] if how["do_rotary"] else []
    return [*given, *caches, ends, np.int32(past + new), *turns], how


def rotary(r: Any) -> Case:
    places = r.integers(0, 12, (B, S)) if r.integers(2) else np.asarray([2])
    how: dict[str, Any] = {"interleaved": int(r.integers(2))}
    half = 4
    if r.integers(2):
        how |= {"num_heads": HEADS, "rotary_embedding_dim": 4}
        half = 2
    x = floats(r, B, S, H) if r.integers(2) or half == 2 else floats(r, B, HEADS, S, 8)
    return [x, places, floats(r, 12, half), floats(r, 12, half)], how


def skipped(r: Any) -> Case:
    bias = floats(r, H) if r.integers(2) else None
    return [floats(r, B, S, H), floats(r, B, S, H), floats(r, H), floats(r, H), bias], {
        "epsilon": 1e-5
    }


def skipped_plain(r: Any) -> Case:
    (x, skip, gamma, _, bias), how = skipped(r)
    return [x, skip, gamma, bias], how


def embedding(r: Any) -> Case:
    ids, kinds = (r.integers(0, n, (B, S)).astype(np.int32) for n in (9, 2))
    mask = (np.arange(S) < np.asarray([[2], [4]])).astype(np.int32)
    return [ids, kinds, floats(r, 9, H), floats(r, 7, H), floats(r, 2, H), floats(r, H),
            floats(r, H), mask], {"epsilon": 1e-5}  # fmt: skip


def qembedding(r: Any) -> Case:
    (ids, kinds, *_), how = embedding(r)
    tables = [some(r, np.uint8, *shape) for shape in ((9, H), (7, H), (2, H), (H,), (H,))]
    return [ids, kinds, *tables, np.ones((B, S), np.int32), *(scale(r) for _ in range(5)),
            *(some(r, np.uint8) for _ in range(5))], how  # fmt: skip


def fused_product(r: Any) -> Case:
    how = {name: int(r.integers(2)) for name in ("transA", "transB")}
    batch = int(r.integers(2))
    a, b = floats(r, 2, 3, 4), floats(r, 2, 4, 5)
    a, b = (np.swapaxes(x, 1, 2) if t else x for x, t in zip((a, b), how.values(), strict=True))
    if batch:
        a, b = (np.moveaxis(x, -2, 0) for x in (a, b))
    how |= {"transBatchA": batch, "transBatchB": batch}
    return [np.ascontiguousarray(a), np.ascontiguousarray(b)], {**how, "alpha": 0.7}


def fused_conv(r: Any) -> Case:
    name, params = [("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-1.0, 1.0])][r.integers(3)]
    how = {"activation": name, "pads": [1, 1, 1, 1]}
    return [floats(r, 1, 4, 6, 5), floats(r, 6, 4, 3, 3), floats(r, 6)], (
        {**how, "activation_params": params} if params else how
    )


def fused_gemm(r: Any) -> Case:
    return [floats(r, 3, 4), floats(r, 5, 4), floats(r, 5)], {
        "transB": 1, "alpha": 0.5, "beta": 2.0, "activation": str(r.choice(["Relu", "LeakyRelu"])),
        "activation_alpha": 0.1,
    }  # fmt: skip


def biased(r: Any) -> Case:
    return [floats(r, 3, 8), floats(r, 8)], {}


CASES: dict[str, Callable[[Any], Case]] = {
    "MatMulIntegerToFloat": product, "DynamicQuantizeMatMul": dynamic_product, "QGemm": qgemm,
    "QLinearAdd": qbinary, "QLinearMul": qbinary, "QLinearSigmoid": qunary(),
    "QLinearLeakyRelu": qunary(alpha=0.1), "QLinearConcat": qconcat, "QLinearWhere": qwhere,
    "QLinearSoftmax": qsoftmax, "QLinearAveragePool": qpool, "QLinearGlobalAveragePool": qglobal,
    "QLinearConv": qconv, "MatMulNBits": nbits, "GatherBlockQuantized": gathered,
    "DynamicQuantizeLSTM": recurrent, "Attention": attention, "QAttention": qattention,
    "MultiHeadAttention": multi_head, "GroupQueryAttention": grouped, "RotaryEmbedding": rotary,
    "SkipLayerNormalization": skipped, "SkipSimplifiedLayerNormalization": skipped_plain,
    "EmbedLayerNormalization": embedding, "QEmbedLayerNormalization": qembedding,
    "FusedMatMul": fused_product, "FusedConv": fused_conv,
    "FusedGemm": fused_gemm, "BiasGelu": biased, "FastGelu": biased,
    "QuickGelu": lambda r: ([floats(r, 3, 8)], {"alpha": 1.5}),
    "Gelu": lambda r: ([floats(r, 3, 8)], {}),
    "QuantizeLinear": lambda r: ([floats(r, 3, 8), scale(r), some(r, np.uint8)], {}),
    "DequantizeLinear": lambda r: (quantized(r, np.uint8, 3, 8), {}),
    "Inverse": lambda r: ([floats(r, 2, 4, 4) + 4 * np.eye(4, dtype=np.float32)], {}),
    "Trilu": lambda r: ([floats(r, 4, 5), np.asarray(1)], {"upper": int(r.integers(2))}),
    "ExpandDims": lambda r: ([floats(r, 4, 5), np.int32(1)], {}),
}  # fmt: skip
KNOWN = {"GroupQueryAttention": (6,), "Trilu": (1,), "ExpandDims": (1,)}
"""Inputs that decide the shape of the result."""
OUTPUTS = {
    "Attention": 2, "QAttention": 2, "MultiHeadAttention": 3, "GroupQueryAttention": 3,
    "DynamicQuantizeLSTM": 3, "EmbedLayerNormalization": 2, "QEmbedLayerNormalization": 2,
}  # fmt: skip


def test_every_operator_of_the_domain_has_a_case() -> None:
    searches = {"BeamSearch", "GreedySearch", "Sampling"}  # tests/onnx/test_search.py
    assert {name for domain, name in OPERATORS if domain == DOMAIN} == {*CASES, *searches}


def built(op: str, case: Case) -> tuple[Any, dict[str, Array]]:
    """Return a model of one node and its feed; weights that decide shapes are initializers."""
    given, how = case
    while given and given[-1] is None:
        given = given[:-1]
    arrays = {f"x{at}": np.asarray(each) for at, each in enumerate(given) if each is not None}
    weights = {f"x{at}": arrays[f"x{at}"] for at in KNOWN.get(op, ()) if f"x{at}" in arrays}
    if op == "DynamicQuantizeLSTM":
        weights = {name: array for name, array in arrays.items() if name != "x0"}
    feed = {name: array for name, array in arrays.items() if name not in weights}
    types = {n: (onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feed.items()}
    names = [f"x{at}" if each is not None else "" for at, each in enumerate(given)]
    outputs = [f"y{at}" for at in range(OUTPUTS.get(op, 1))]
    made = model(
        [node(op, names, outputs, domain=DOMAIN, **how)], types, outputs, weights, opset=20
    )
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return made, feed


def agrees(op: str, found: Array, expected: Array) -> None:
    """Bytes may differ by one where a float is halfway between two; rounded states by a step."""
    if np.issubdtype(expected.dtype, np.integer):
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
        return
    is_rounded = op == "DynamicQuantizeLSTM"  # a sum may round to another byte of the state
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-3 if is_rounded else 2e-5)


@pytest.mark.parametrize("op", CASES)
def test_results_are_those_of_onnx_runtime(op: str) -> None:
    peer = pytest.importorskip("onnxruntime")
    for seed in range(6):
        made, feed = built(op, CASES[op](np.random.default_rng(seed)))
        session = peer.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        expected = session.run(None, feed)
        found = InferenceSession(made, backend="reference").run(None, feed)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype
            agrees(op, ours, theirs)


def test_shared_buffers_of_past_and_present_are_refused() -> None:
    case, how = attention(np.random.default_rng(0))
    made, feed = built("Attention", (case, {**how, "past_present_share_buffer": 1}))
    with pytest.raises(UnsupportedError, match="past_present_share_buffer"):
        InferenceSession(made).run(None, feed)

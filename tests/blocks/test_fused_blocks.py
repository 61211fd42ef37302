"""Fused blocks (feed-forward, attention, transformer layers) against their formulas.

Each is a block over plain ops, which fusion joins again: what they compute is compared with the
formula, natively and by reference, and so is how many kernels run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erf

import rlx
from rlx import blocks
from rlx.codegen.schedule import Phase, Thunk
from rlx.errors import GraphError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate

Array = NDArray[Any]
RANDOM = np.random.default_rng(9)
HEADS, DEPTH, LENGTH = 2, 4, 5
WIDTH, INNER = HEADS * DEPTH, 12
EPS = 1e-5


class Feeds:
    """A graph under construction in f32, and the arrays of its inputs and params."""

    def __init__(self) -> None:
        self.graph = Graph("block")
        self.inputs: dict[str, Array] = {}
        self.params: dict[str, Array] = {}

    def input(self, *shape: int) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = RANDOM.standard_normal(shape).astype(np.float32)
        return self.graph.input(name, shape)

    def param(self, *shape: int) -> Value:
        name = f"w{len(self.params)}"
        self.params[name] = (0.4 * RANDOM.standard_normal(shape)).astype(np.float32)
        return self.graph.param(name, shape)

    def checked(self, y: Value, expected: Array) -> list[str]:
        """Compare with `expected`; return the kinds of the kernels of a run."""
        self.graph.set_outputs([y])
        (exact,) = evaluate(self.graph, {**self.inputs, **self.params})
        np.testing.assert_allclose(exact, expected, rtol=2e-5, atol=2e-5)
        f = rlx.compile(self.graph, params=self.params)
        np.testing.assert_allclose(f(**self.inputs)[0], expected, rtol=1e-4, atol=1e-4)
        return [thunk.kind for thunk in f.schedule.phase(Phase.RUN) if isinstance(thunk, Thunk)]

    def __getitem__(self, value: Value) -> Array:
        name = str(value.node.name)
        return {**self.inputs, **self.params}[name].astype("f8")


def norm(x: Array, gamma: Array, beta: Array) -> Array:
    centered = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centered**2).mean(-1, keepdims=True) + EPS)
    scaled: Array = centered / spread * gamma + beta
    return scaled


def gelu(x: Array) -> Array:
    activated: Array = x * (1 + erf(x / np.sqrt(2))) / 2
    return activated


def silu(x: Array) -> Array:
    gated: Array = x / (1 + np.exp(-x))
    return gated


ACTIVATIONS: dict[str | None, Callable[[Array], Array]] = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "silu": silu,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fused_mat_mul_bias_act(activation: str | None) -> None:
    feeds = Feeds()
    x, w, bias = feeds.input(2, LENGTH, WIDTH), feeds.param(WIDTH, INNER), feeds.param(INNER)
    y = blocks.linear(x, w, bias, activation=activation)
    expected = ACTIVATIONS[activation](feeds[x] @ feeds[w] + feeds[bias])
    assert len(feeds.checked(y, expected)) == 1


def rms_norm(x: Any, gamma: Any, beta: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * gamma + beta


NORMS = [(blocks.residual_layer_norm, norm), (blocks.residual_rms_norm, rms_norm)]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("block", "formula"), NORMS)
def test_fused_residual_norm(block: Any, formula: Any, has_bias: bool) -> None:
    feeds = Feeds()
    x, residual = feeds.input(LENGTH, WIDTH), feeds.input(LENGTH, WIDTH)
    gamma, beta = feeds.param(WIDTH), feeds.param(WIDTH)
    bias = feeds.param(WIDTH) if has_bias else None
    y = block(x, residual, gamma, beta, bias, eps=EPS)
    total = feeds[x] + feeds[residual] + (0 if bias is None else feeds[bias])
    assert len(feeds.checked(y, formula(total, feeds[gamma], feeds[beta]))) == 1


@pytest.mark.parametrize("gate_first", [False, True])
def test_fused_swiglu(gate_first: bool) -> None:
    feeds = Feeds()
    packed = feeds.input(3, 2 * INNER)
    up, gate = np.split(feeds[packed], 2, axis=1)[:: -1 if gate_first else 1]
    y = blocks.packed_swiglu(packed, gate_first=gate_first)
    assert len(feeds.checked(y, up * silu(gate))) == 1


def test_the_product_is_rounded_to_what_it_is_cast_to() -> None:
    feeds = Feeds()
    packed = feeds.input(3, 2 * INNER)
    feeds.graph.set_outputs([blocks.packed_swiglu(packed, cast_to="f16")])
    up, gate = np.split(feeds[packed], 2, axis=1)
    for backend in ("llvm", "c", "reference"):
        (found,) = rlx.compile(feeds.graph, backend=backend)(**feeds.inputs)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, up * silu(gate), rtol=2**-10, atol=2**-20)


def test_lora_mat_mul() -> None:
    feeds = Feeds()
    x, w = feeds.input(LENGTH, WIDTH), feeds.param(WIDTH, INNER)
    a, b = feeds.param(WIDTH, 2), feeds.param(2, INNER)
    y = blocks.lora_matmul(x, w, a, b, scale=0.5)
    feeds.checked(y, feeds[x] @ feeds[w] + 0.5 * (feeds[x] @ feeds[a]) @ feeds[b])


def rotated(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate every head of `[B, S, H * D]`."""
    first, second = np.split(x.reshape(*x.shape[:2], HEADS, DEPTH), 2, axis=-1)
    c, s = cos[:, None], sin[:, None]
    turned = np.concatenate([first * c - second * s, second * c + first * s], axis=-1)
    return turned.reshape(x.shape)


def attention(q: Array, k: Array, v: Array, mask: Array) -> Array:
    q, k, v = (x.reshape(*x.shape[:2], HEADS, DEPTH).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = np.where(mask[:, None, None] < 0.5, -1e9, q @ k.swapaxes(-1, -2) / np.sqrt(DEPTH))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    attended: Array = weights / weights.sum(-1, keepdims=True) @ v
    return attended.transpose(0, 2, 1, 3).reshape(len(q), -1, WIDTH)


class Attending(Feeds):
    """The operands that attention blocks share; the last key of the second row is hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.mask = self.input(2, LENGTH, WIDTH), self.input(2, LENGTH)
        self.inputs["x1"][...] = 1
        self.inputs["x1"][1, -1] = 0
        self.qkv, self.out = self.param(WIDTH, 3 * WIDTH), self.param(WIDTH, WIDTH)
        self.cos, self.sin = (self.input(LENGTH, DEPTH // 2) for _ in range(2))
        self.biases = self.param(3 * WIDTH), self.param(WIDTH)
        self.norms = [(self.param(WIDTH), self.param(WIDTH)) for _ in range(2)]
        self.sizes: dict[str, Any] = {"num_heads": HEADS, "head_dim": DEPTH}

    def attended(self, *, has_bias: bool, has_rope: bool) -> Array:
        qkv_bias, out_bias = (self[b] if has_bias else 0.0 for b in self.biases)
        q, k, v = np.split(self[self.hidden] @ self[self.qkv] + qkv_bias, 3, axis=-1)
        if has_rope:
            q, k = (rotated(x, self[self.cos], self[self.sin]) for x in (q, k))
        return attention(q, k, v, self[self.mask]) @ self[self.out] + out_bias

    def normed(self, x: Array, number: int) -> Array:
        gamma, beta = self.norms[number]
        return norm(x, self[gamma], self[beta])


@pytest.mark.parametrize("has_rope", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_fused_attention_block(has_bias: bool, has_rope: bool) -> None:
    feeds = Attending()
    y = blocks.packed_attention(
        feeds.hidden, feeds.qkv, feeds.out, feeds.mask,
        *(feeds.biases if has_bias else (None, None)),
        *((feeds.cos, feeds.sin) if has_rope else (None, None)), **feeds.sizes,
    )  # fmt: skip
    kinds = feeds.checked(y, feeds.attended(has_bias=has_bias, has_rope=has_rope))
    assert "narrow" not in kinds
    assert len(kinds) <= 3 + 2 * has_rope


@pytest.mark.parametrize("batch", [(2,), ()])
@pytest.mark.parametrize("embedded", [WIDTH // 2, 3 * WIDTH])
def test_heads_need_not_be_as_wide_as_the_embedding(embedded: int, batch: tuple[int, ...]) -> None:
    """A hidden state without examples is one of a single example."""
    feeds = Feeds()
    hidden, mask = feeds.input(*batch, LENGTH, embedded), feeds.input(*(batch or (1,)), LENGTH)
    qkv, out = feeds.param(embedded, 3 * WIDTH), feeds.param(WIDTH, embedded)
    y = blocks.packed_attention(hidden, qkv, out, mask, num_heads=HEADS, head_dim=DEPTH)
    examples = feeds[hidden].reshape(-1, LENGTH, embedded)
    q, k, v = np.split(examples @ feeds[qkv], 3, axis=-1)
    expected = attention(q, k, v, feeds[mask]) @ feeds[out]
    feeds.checked(y, expected.reshape(y.type.static_shape))


@pytest.mark.parametrize("has_bias", [False, True])
def test_fused_transformer_layer(has_bias: bool) -> None:
    """With biases: a BERT layer."""
    feeds = Attending()
    up, down = feeds.param(WIDTH, INNER), feeds.param(INNER, WIDTH)
    inner_biases = feeds.param(INNER), feeds.param(WIDTH)
    y = blocks.packed_transformer_layer(
        feeds.hidden, feeds.qkv, feeds.out, feeds.norms[0], up, down, feeds.norms[1], feeds.mask,
        (*feeds.biases, *inner_biases) if has_bias else None, eps=(EPS, EPS), **feeds.sizes,
    )  # fmt: skip
    first = feeds.normed(feeds.attended(has_bias=has_bias, has_rope=False) + feeds[feeds.hidden], 0)
    up_bias, down_bias = (feeds[b] if has_bias else 0.0 for b in inner_biases)
    last = gelu(first @ feeds[up] + up_bias) @ feeds[down] + down_bias
    assert "narrow" not in feeds.checked(y, feeds.normed(last + first, 1))


def test_fused_nomic_layer() -> None:
    feeds = Attending()
    both, down = feeds.param(WIDTH, 2 * INNER), feeds.param(INNER, WIDTH)
    y = blocks.nomic_layer(
        feeds.hidden, feeds.qkv, feeds.out, feeds.norms[0], both, down, feeds.norms[1], feeds.mask,
        feeds.cos, feeds.sin, eps=(EPS, EPS), **feeds.sizes,
    )  # fmt: skip
    first = feeds.normed(feeds.attended(has_bias=False, has_rope=True) + feeds[feeds.hidden], 0)
    up, gate = np.split(first @ feeds[both], 2, axis=-1)
    last = (up * silu(gate)) @ feeds[down]
    assert "narrow" not in feeds.checked(y, feeds.normed(last + first, 1))


def test_a_bias_on_one_side_is_refused() -> None:
    feeds = Attending()
    with pytest.raises(GraphError, match="out_bias missing"):
        blocks.packed_attention(
            feeds.hidden, feeds.qkv, feeds.out, feeds.mask, feeds.biases[0], **feeds.sizes
        )


def test_a_residual_that_broadcasts_is_refused() -> None:
    feeds = Feeds()
    x, row, vector = feeds.input(LENGTH, WIDTH), feeds.input(1, WIDTH), feeds.param(WIDTH)
    with pytest.raises(ShapeError, match="residual has shape"):
        blocks.residual_layer_norm(x, row, vector, vector, eps=EPS)


def test_an_intermediate_that_is_an_output_is_kept() -> None:
    """A projection whose slices attention reads is a result, too."""
    feeds = Attending()
    projected = blocks.linear(feeds.hidden, feeds.qkv)
    q, k, v = (
        feeds.graph.narrow(projected, axis=-1, start=n * WIDTH, length=WIDTH) for n in range(3)
    )
    y = feeds.graph.attention(q, k, v, feeds.mask, mask_kind="custom", **feeds.sizes)
    feeds.graph.set_outputs([y, projected, k])
    found = rlx.compile(feeds.graph, params=feeds.params)(**feeds.inputs)
    expected = evaluate(feeds.graph, {**feeds.inputs, **feeds.params})
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)

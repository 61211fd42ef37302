"""Blocks compute what their formulas say, under their scopes."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx import blocks
from rlx.ir.graph import Graph, Value
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.ir.verify import verify

Arrays = dict[str, NDArray[Any]]
rng = np.random.default_rng(5)


class Feeds:
    """Declares inputs of a graph together with their data."""

    def __init__(self) -> None:
        self.graph = Graph("block")
        self.arrays: Arrays = {}

    def give(self, name: str, array: NDArray[Any]) -> Value:
        self.arrays[name] = array
        return self.graph.input(
            name, array.shape, array.dtype.name.replace("float", "f").replace("int", "i")
        )

    def normal(self, name: str, *shape: int) -> Value:
        return self.give(name, rng.normal(size=shape).astype(np.float32))

    def run(self, *outputs: Value) -> list[NDArray[Any]]:
        self.graph.set_outputs(outputs)
        verify(self.graph)
        return [np.asarray(array) for array in evaluate(self.graph, self.arrays)]


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    result: NDArray[Any] = 1 / (1 + np.exp(-x))
    return result


def layer_norm(x: NDArray[Any], gamma: NDArray[Any], beta: NDArray[Any]) -> NDArray[Any]:
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    result: NDArray[Any] = scaled * gamma + beta
    return result


def test_linear_multiplies_adds_and_activates() -> None:
    feeds = Feeds()
    x, w, b = feeds.normal("x", 2, 3), feeds.normal("w", 3, 4), feeds.normal("b", 4)
    (y,) = feeds.run(blocks.linear(x, w, b, activation="tanh"))
    a = feeds.arrays
    np.testing.assert_allclose(y, np.tanh(a["x"] @ a["w"] + a["b"]), rtol=1e-6, atol=1e-7)


def test_a_shared_pair_is_two_products() -> None:
    feeds = Feeds()
    x, first, second = feeds.normal("x", 2, 3), feeds.normal("a", 3, 4), feeds.normal("b", 3, 1)
    left, right = feeds.run(*blocks.shared_linear_pair(x, first, second))
    a = feeds.arrays
    np.testing.assert_allclose(left, a["x"] @ a["a"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(right, a["x"] @ a["b"], rtol=1e-5, atol=1e-6)


def test_swiglu_gates_the_up_projection() -> None:
    feeds = Feeds()
    x, up, gate = feeds.normal("x", 2, 3), feeds.normal("up", 3, 5), feeds.normal("gate", 3, 5)
    (y,) = feeds.run(blocks.swiglu_ffn(x, up, gate, feeds.normal("down", 5, 3)))
    a = feeds.arrays
    gated = a["x"] @ a["gate"]
    expected = ((a["x"] @ a["up"]) * gated * sigmoid(gated)) @ a["down"]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_embedding_takes_rows() -> None:
    feeds = Feeds()
    table = feeds.normal("table", 7, 3)
    ids = feeds.give("ids", np.array([[1, 6], [0, 1]], np.int32))
    (y,) = feeds.run(blocks.embedding(table, ids))
    np.testing.assert_array_equal(y, feeds.arrays["table"][feeds.arrays["ids"]])


def test_residual_norms_normalize_the_sum() -> None:
    feeds = Feeds()
    x, r = feeds.normal("x", 2, 4), feeds.normal("r", 2, 4)
    g, b, bias = feeds.normal("g", 4), feeds.normal("b", 4), feeds.normal("bias", 4)
    layer, rms = feeds.run(
        blocks.residual_layer_norm(x, r, g, b, bias, eps=1e-5),
        blocks.residual_rms_norm(x, r, g, eps=1e-5),
    )
    a = feeds.arrays
    total = a["x"] + a["bias"] + a["r"]
    np.testing.assert_allclose(layer, layer_norm(total, a["g"], a["b"]), rtol=1e-5, atol=1e-6)
    plain = a["x"] + a["r"]
    root = np.sqrt((plain**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(rms, plain / root * a["g"], rtol=1e-5, atol=1e-6)


def test_causal_convolution_never_looks_ahead() -> None:
    feeds = Feeds()
    x, w = feeds.normal("x", 2, 5, 3), feeds.normal("w", 3, 1, 1, 4)
    (y,) = feeds.run(blocks.depthwise_conv1d_causal(x, w, feeds.normal("pad", 2, 3, 3)))
    a = feeds.arrays
    padded, taps = np.concatenate([a["pad"], a["x"]], axis=1), a["w"][:, 0, 0, :]
    expected = [(padded[:, step : step + 4] * taps.T).sum(1) for step in range(5)]
    np.testing.assert_allclose(y, np.stack(expected, axis=1), rtol=1e-5, atol=1e-6)


def encoder_layer(graph: Graph, x: Value, mask: Value | None = None) -> Value:
    weights = blocks.EncoderLayerWeights.params(graph, "layer.0", hidden=8, intermediate=16)
    return blocks.transformer_encoder_layer(
        x, weights, num_heads=2, eps=1e-5, mask=mask, name="layer.0"
    )


def test_an_encoder_layer_is_attention_and_feed_forward_with_residuals() -> None:
    feeds = Feeds()
    x = feeds.normal("x", 1, 3, 8)
    out = encoder_layer(feeds.graph, x)
    for param in feeds.graph.params:
        shape = [int(str(extent)) for extent in param.shape]
        feeds.arrays[str(param.node.name)] = rng.normal(size=shape).astype(np.float32)
    (y,) = feeds.run(out)
    w = {name.removeprefix("layer.0."): array for name, array in feeds.arrays.items()}
    np.testing.assert_allclose(y[0], _encoder_in_numpy(w["x"][0], w), rtol=2e-4, atol=2e-5)


def _encoder_in_numpy(x: NDArray[Any], w: Arrays) -> NDArray[Any]:
    from scipy.special import erf

    q, k, v = (
        x @ w[f"attention.{p}"] + w[f"attention.{p}_bias"] for p in ("query", "key", "value")
    )
    heads = []
    for columns in (slice(0, 4), slice(4, 8)):
        scores = np.exp(q[:, columns] @ k[:, columns].T / 2)
        heads.append(scores / scores.sum(-1, keepdims=True) @ v[:, columns])
    attended = np.concatenate(heads, -1) @ w["attention.output"] + w["attention.output_bias"]
    h = layer_norm(x + attended, w["attention_gamma"], w["attention_beta"])
    inner = h @ w["up"] + w["up_bias"]
    fed = (0.5 * inner * (1 + erf(inner / np.sqrt(2)))) @ w["down"] + w["down_bias"]
    return layer_norm(fed + h, w["output_gamma"], w["output_beta"])


def test_scopes_say_which_block_a_node_came_from() -> None:
    graph = Graph()
    encoder_layer(graph, graph.input("x", (Dim("batch", max=4), Dim("seq", max=16), 8)))
    scopes = {node.scope for node in graph.nodes if node.scope}
    assert "layer.0.attention.query" in scopes
    assert "layer.0.feed_forward.up" in scopes
    assert parse_graph(format_graph(graph)) == graph


def test_nodes_of_a_block_point_at_the_line_that_called_it() -> None:
    graph = Graph()
    encoder_layer(graph, graph.input("x", (2, 8)))
    sources = {node.index: node.source for node in graph.nodes if node.scope and node.source}
    lines, first = inspect.getsourcelines(encoder_layer)
    (called,) = (first + i for i, text in enumerate(lines) if "blocks.transformer" in text)
    assert len(sources) > 10
    assert {(source.file, source.line) for source in sources.values()} == {(__file__, called)}


def test_a_llama_block_shares_key_heads_and_adds_both_branches() -> None:
    feeds = Feeds()
    x = feeds.normal("x", 1, 3, 8)
    shapes = {"attention_gamma": (8,), "query": (8, 8), "key": (8, 4), "value": (8, 4)}
    shapes |= {"output": (8, 8), "ffn_gamma": (8,), "gate": (8, 6), "up": (8, 6), "down": (6, 8)}
    weights = {name: feeds.normal(name, *shape) for name, shape in shapes.items()}
    cos = feeds.give("cos", np.ones((3, 2), np.float32))
    sin = feeds.give("sin", np.zeros((3, 2), np.float32))
    record = blocks.LlamaDecoderWeights(**weights)
    (y,) = feeds.run(
        blocks.llama_decoder_block(x, record, cos, sin, num_heads=2, head_dim=4, num_kv_heads=1)
    )
    np.testing.assert_allclose(y[0], _llama_in_numpy(feeds.arrays), rtol=2e-4, atol=2e-5)


def _llama_in_numpy(w: Arrays) -> NDArray[Any]:
    def rms(x: NDArray[Any], gamma: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma
        return result

    x = w["x"][0]
    n = rms(x, w["attention_gamma"])
    q, k, v = n @ w["query"], n @ w["key"], n @ w["value"]
    heads = []
    for columns in (slice(0, 4), slice(4, 8)):
        scores = np.exp(np.where(np.tri(3, dtype=bool), q[:, columns] @ k.T / 2, -np.inf))
        heads.append(scores / scores.sum(-1, keepdims=True) @ v)
    h = x + np.concatenate(heads, -1) @ w["output"]
    m = rms(h, w["ffn_gamma"])
    gated = m @ w["gate"]
    result: NDArray[Any] = h + ((m @ w["up"]) * gated * sigmoid(gated)) @ w["down"]
    return result


def test_the_prediction_head_predicts_from_the_last_token_of_each_row() -> None:
    feeds = Feeds()
    hidden = feeds.normal("hidden", 2, 3, 8)
    ids = feeds.give("ids", np.array([[1, 2, 3], [4, 0, 2]], np.int32))
    last = feeds.give("last", np.array([2, 0], np.int64))
    shapes = {"embed": (5, 8), "joint": (16, 8), "query_gate": (8, 16), "key": (8, 4)}
    shapes |= {"value": (8, 4), "output": (8, 8), "gate": (8, 6), "up": (8, 6), "down": (6, 8)}
    weights: dict[str, Any] = {n: feeds.normal(n, *shape) for n, shape in shapes.items()}
    widths = {"embed": 8, "hidden": 8, "attention": 8, "query": 4, "key": 4, "ffn": 8, "head": 8}
    weights |= {f"{n}_norm": blocks.Norm(feeds.normal(f"{n}_norm", w)) for n, w in widths.items()}
    head = feeds.normal("head", 8, 7)
    cos, sin = feeds.normal("cos", 3, 2), feeds.normal("sin", 3, 2)
    logits = blocks.qwen35_mtp_head(
        hidden, ids, last, blocks.MtpHeadWeights(**weights, head=head), cos, sin,
        num_heads=2, num_kv_heads=1, head_dim=4, n_rot=4,
    )  # fmt: skip
    (before,) = feeds.run(logits)
    assert before.shape == (2, 7)
    feeds.arrays["hidden"][1, 1:] += 1  # causal: row 1 predicts from its first position
    (after,) = feeds.run(logits)
    np.testing.assert_array_equal(after[1], before[1])
    feeds.arrays["hidden"][0, 0] += 1
    (changed,) = feeds.run(logits)
    assert not np.array_equal(changed[0], before[0])

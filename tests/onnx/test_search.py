"""Greedy, beam and sampled searches over a small decoder, compared with ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rlx.errors import UnsupportedError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402

DOMAIN = "com.microsoft"
WORDS, WIDTH, HEADS, LENGTH = 20, 8, 2, 14
END, PAD = 3, 0
INPUTS = {
    "GreedySearch": ("max_length", "min_length", "repetition_penalty"),
    "Sampling": ("max_length", "min_length", "repetition_penalty", "", "", "", "", "seed"),
    "BeamSearch": ("max_length", "min_length", "num_beams", "num_return_sequences",
                   "length_penalty", "repetition_penalty"),
}  # fmt: skip


def decoder(weights: dict[str, Any], nodes: list[Any]) -> Any:
    helper, types = onnx.helper, onnx.TensorProto
    cache = [2, "batch", HEADS, "past", WIDTH // HEADS]
    inputs = [
        helper.make_tensor_value_info("input_ids", types.INT32, ["batch", "length"]),
        helper.make_tensor_value_info("position_ids", types.INT32, ["batch", "length"]),
        helper.make_tensor_value_info("attention_mask", types.INT32, ["batch", "total"]),
        helper.make_tensor_value_info("past_0", types.FLOAT, cache),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", types.FLOAT, ["batch", "length", WORDS]),
        helper.make_tensor_value_info("present_0", types.FLOAT, [*cache[:3], "total", cache[4]]),
    ]
    held = [onnx.numpy_helper.from_array(each, name) for name, each in weights.items()]
    return helper.make_graph(nodes, "decoder", inputs, outputs, held)


def transformer(seed: int) -> Any:
    """Return a decoder of one layer, with embeddings of words and places."""
    r, make = np.random.default_rng(seed), onnx.helper.make_node
    shapes = {"words": (WORDS, WIDTH), "places": (LENGTH, WIDTH), "qkv": (WIDTH, 3 * WIDTH),
              "bias": (3 * WIDTH,), "out": (WIDTH, WIDTH), "head": (WIDTH, WORDS)}  # fmt: skip
    weights = {name: r.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        make("Gather", ["words", "input_ids"], ["word"]),
        make("Gather", ["places", "position_ids"], ["place"]),
        make("Add", ["word", "place"], ["x"]),
        make("Attention", ["x", "qkv", "bias", "attention_mask", "past_0"], ["read", "present_0"],
             domain=DOMAIN, num_heads=HEADS, unidirectional=1),
        make("MatMul", ["read", "out"], ["y"]), make("Add", ["x", "y"], ["z"]),
        make("MatMul", ["z", "head"], ["logits"]),
    ]  # fmt: skip
    return decoder(weights, nodes)


def search(op: str, body: Any, numbers: dict[str, Any] | None = None, **how: Any) -> Any:
    helper, types = onnx.helper, onnx.TensorProto
    given = {"max_length": LENGTH, "min_length": 6, "num_beams": 3, "num_return_sequences": 2,
             "length_penalty": 1.0, "repetition_penalty": 1.3, "seed": 1,
             **(numbers or {})}  # fmt: skip
    floats = ("length_penalty", "repetition_penalty")
    held = [
        onnx.numpy_helper.from_array(
            np.array([given[name]], np.float32 if name in floats else np.int32), name
        )
        for name in INPUTS[op]
        if name
    ]
    results = ["texts", "scores"] if op == "BeamSearch" else ["texts"]
    node = helper.make_node(
        op, ["prompt", *INPUTS[op]], results, domain=DOMAIN, decoder=body,
        eos_token_id=END, pad_token_id=PAD, **{"model_type": 0, **how},
    )  # fmt: skip
    kinds = {"texts": types.INT32, "scores": types.FLOAT}
    graph = helper.make_graph(
        [node], "search",
        [helper.make_tensor_value_info("prompt", types.INT32, ["batch", "length"])],
        [helper.make_tensor_value_info(name, kinds[name], None) for name in results], held,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


SEARCHES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "greedy": ("GreedySearch", {}, {}),
    "beams": ("BeamSearch", {}, {}),
    "one beam": ("BeamSearch", {"num_beams": 1, "num_return_sequences": 1}, {}),
    "beams that stop early": (
        "BeamSearch", {"num_beams": 4, "length_penalty": 0.5, "repetition_penalty": 1.0},
        {"early_stopping": 1},
    ),
    "beams that like length": ("BeamSearch", {"num_beams": 2, "length_penalty": 2.0}, {}),
    "the most probable word": (
        "Sampling", {}, {"top_p": 1e-4, "temperature": 0.7, "min_tokens_to_keep": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_texts_are_those_of_onnx_runtime(name: str) -> None:
    """ONNX Runtime leaves what follows the last step unwritten, where all texts end early.

    Whether a prompt's beams can still improve it decides by the scores of another prompt, as runs
    of single prompts show; so beams are compared for one, or where they stop early.
    """
    peer = pytest.importorskip("onnxruntime")
    op, numbers, how = SEARCHES[name]
    for seed in range(4):
        made = search(op, transformer(seed), numbers, **how)
        count = 1 if op == "BeamSearch" and "early_stopping" not in how else 3
        prompt = np.random.default_rng(seed).integers(1, WORDS, (count, 4)).astype(np.int32)
        prompt[0, : count - 1] = PAD
        feed = {"prompt": prompt}
        theirs = peer.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"]
        ).run(None, feed)
        for backend in ("reference", "llvm"):
            ours = InferenceSession(made, backend=backend).run(None, feed)
            written = np.flatnonzero((ours[0] != PAD).reshape(-1, LENGTH).any(0)).max() + 1
            np.testing.assert_array_equal(ours[0][..., :written], theirs[0][..., :written])
            for found, expected in zip(ours[1:], theirs[1:], strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_words_are_drawn_by_their_probabilities() -> None:
    """A decoder of pairs of words; of the most probable that have 0.7 of the probability."""
    table = np.random.default_rng(0).normal(size=(WORDS, WORDS)).astype(np.float32)
    make = onnx.helper.make_node
    nodes = [make("Gather", ["table", "input_ids"], ["logits"]),
             make("Identity", ["past_0"], ["present_0"])]  # fmt: skip
    numbers = {"max_length": 2, "min_length": 0, "repetition_penalty": 1.0}
    made = search("Sampling", decoder({"table": table}, nodes), numbers, top_p=0.7)
    (texts,) = InferenceSession(made).run(None, {"prompt": np.full((4000, 1), 5, np.int32)})
    shares = np.exp(table[5]) / np.exp(table[5]).sum()
    order = np.argsort(-shares)
    before = np.cumsum(shares[order]) - shares[order]
    shares[order[before >= 0.7]] = 0
    shares[PAD] += shares[END]  # what ends a text is written as padding
    shares[END] = 0
    expected = shares / shares.sum()
    found = np.bincount(texts[:, 1], minlength=WORDS) / 4000
    assert np.abs(found - expected).max() < 0.04
    assert not found[expected == 0].any()


@pytest.mark.parametrize(
    "how", [{"model_type": 1}, {"no_repeat_ngram_size": 2}], ids=["encoder", "repeats"]
)
def test_other_searches_are_refused(how: dict[str, Any]) -> None:
    made = search("GreedySearch", transformer(0), None, **how)
    with pytest.raises(UnsupportedError, match=next(iter(how))):
        InferenceSession(made).run(None, {"prompt": np.ones((1, 4), np.int32)})

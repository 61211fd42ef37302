"""Adapters learn next to packed weights, and change what a model says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlx.optim
from rlx.errors import FormatError, InputError
from rlx.gguf import GgufFile, read
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.language import Adapters, FineTuning, Lora
from rlx.language.decoder import sequence_logits
from rlx.language.training import training_graph
from tests.language.tiny import random_weights, write_model

TEXT = [3, 14, 15, 9, 26, 5, 35, 8, 9, 7]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> GgufFile:
    directory = tmp_path_factory.mktemp("tuned")
    weights = random_weights(1)
    return read(write_model(directory / "m.gguf", "llama", weights, packed=True))


def random_adapters(file: GgufFile) -> Adapters:
    """Return random adapters of q, whose rows RoPE reorders, and of ffn_down."""
    first = Adapters.first(file, Lora(3, 6.0, ("attn_q", "ffn_down")))
    random = np.random.default_rng(2)
    drawn = {k: random.standard_normal(v.shape).astype("f4") / 8 for k, v in first.values.items()}
    return Adapters(first.lora, drawn)


def logits(file: GgufFile, adapters: Adapters | None) -> np.ndarray:
    graph = Graph("logits")
    tokens = graph.input("tokens", (len(TEXT),), "i32")
    values, weights = sequence_logits(graph, file, tokens, adapters)
    graph.set_outputs([values])
    return evaluate(graph, {"tokens": np.array(TEXT, np.int32), **weights.values})[0]


def test_adapters_start_without_effect(file: GgufFile) -> None:
    np.testing.assert_array_equal(logits(file, Adapters.first(file)), logits(file, None))


def test_merged_matrices_compute_what_adapters_do(file: GgufFile, tmp_path: Path) -> None:
    """The file that is written is a model of its own; only Q8_0 rounds what was added."""
    adapters = random_adapters(file)
    adapters.merged(file, tmp_path / "merged.gguf")
    merged = read(tmp_path / "merged.gguf")
    assert merged.metadata == file.metadata
    assert merged.element_type("blk.0.attn_q.weight").name == "q8_0"
    expected = logits(file, adapters)
    assert np.abs(expected - logits(file, None)).max() > 0.1 * np.abs(expected).max()
    assert np.abs(expected - logits(merged, None)).max() < 0.05 * np.abs(expected).max()
    for name in file.tensors:
        same = np.array_equal(file.tensor_bytes(name), merged.tensor_bytes(name))
        assert same == (f"{name.removesuffix('.weight')}.lora_a" not in adapters.values)


def test_adapters_are_saved_and_read(file: GgufFile, tmp_path: Path) -> None:
    adapters = random_adapters(file)
    adapters.save(tmp_path / "a.safetensors")
    found = Adapters.read(tmp_path / "a.safetensors")
    assert found.lora == adapters.lora
    assert found.values.keys() == adapters.values.keys()
    for name, value in adapters.values.items():
        np.testing.assert_array_equal(found.values[name], value)


def test_files_without_adapters_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"\0" * 16)
    with pytest.raises(FormatError, match=r"a\.safetensors"):
        Adapters.read(tmp_path / "a.safetensors")
    with pytest.raises(FormatError, match=r"missing\.safetensors"):
        Adapters.read(tmp_path / "missing.safetensors")


def test_unknown_targets_are_refused(file: GgufFile) -> None:
    with pytest.raises(InputError, match="no matrices called attn_qkv"):
        Adapters.first(file, Lora(targets=("attn_qkv",)))


def test_sequences_that_do_not_fit_are_refused(file: GgufFile) -> None:
    training = FineTuning(file, Adapters.first(file), 4, rlx.optim.sgd(1.0))
    with pytest.raises(InputError, match="6 tokens, learned from number 1 on, do not fit 4 rows"):
        training.padded(TEXT[:6])
    with pytest.raises(InputError, match="learned from number 3"):
        training.padded(TEXT[:3], learn_from=3)


def test_gradients_flow_through_packed_weights(file: GgufFile) -> None:
    """A step of plain descent moves B by the slope that differences of the loss have."""
    adapters = random_adapters(file)
    graph, params = training_graph(file, adapters, len(TEXT), rlx.optim.sgd(1.0))
    training = FineTuning(file, adapters, len(TEXT), rlx.optim.sgd(1.0))
    tokens, labels, shares = training.padded(TEXT)
    feeds = {"tokens": tokens, "labels": labels, "shares": shares}
    outputs = evaluate(graph, {**feeds, **params})
    name, at, step = "blk.0.attn_q.lora_b", (1, 5), 1e-2
    moved = outputs[graph.donations[name]]
    slope = (adapters.values[name] - moved)[at]

    def loss(change: float) -> float:
        value = adapters.values[name].copy()
        value[at] += change
        return float(evaluate(graph, {**feeds, **params, name: value})[0])

    difference = (loss(step) - loss(-step)) / (2 * step)
    assert abs(slope) > 1e-4
    assert slope == pytest.approx(difference, rel=2e-2)


@pytest.mark.slow
def test_a_model_says_what_it_was_taught(file: GgufFile) -> None:
    """Compiled steps: the weights stay packed, and adapters alone carry the lesson."""
    lora = Lora(4, targets=("attn_v", "ffn_down"))
    training = FineTuning(
        file, Adapters.first(file, lora), 12, rlx.optim.adam(2e-2), backend="llvm", threads=1
    )
    batch = training.padded(TEXT, learn_from=3)
    losses = [training.step(*batch) for _ in range(40)]
    assert losses[0] > 5 > 0.1 > losses[-1]
    taught = logits(file, training.adapters).argmax(axis=1)
    assert taught[2:-1].tolist() == TEXT[3:]
    assert logits(file, None).argmax(axis=1)[2:-1].tolist() != TEXT[3:]

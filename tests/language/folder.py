"""Small decoders with random weights, as folders of safetensors."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.safetensors_file import read_safetensors
from tests.language.tiny import (
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    VOCABULARY,
    WIDE,
    text_metadata,
)

Array = NDArray[Any]

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": WIDE,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM, "vocab_size": VOCABULARY, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "eos_token_id": 1,
    "tie_word_embeddings": True,
}  # fmt: skip
NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def load_file(path: Path) -> dict[str, Array]:
    return read_safetensors(path).arrays


def save_file(tensors: dict[str, Array], path: Path) -> None:
    """Write a safetensors file, without the package of that name."""
    kinds, header, at = {"f4": "F32", "f2": "F16", "i1": "I8"}, {}, 0
    for name, value in tensors.items():
        header[name] = {
            "dtype": kinds[value.dtype.str[1:]], "shape": value.shape,
            "data_offsets": [at, at + value.nbytes],
        }  # fmt: skip
        at += value.nbytes
    head = json.dumps(header).encode()
    data = b"".join(value.tobytes() for value in tensors.values())
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def in_halves(rows: Array, heads: int) -> Array:
    """Return rows of q or k of a llama in the order that folders have."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return np.swapaxes(pairs, 1, 2).reshape(rows.shape)


def hub_tensors(weights: dict[str, Array]) -> dict[str, Array]:
    """Return the tensors of a GGUF file of a llama as a folder has them."""
    found = {}
    for name, value in weights.items():
        *layer, own = name.removesuffix(".weight").split(".")
        prefix = f"model.layers.{layer[1]}." if layer else ""
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(own)
        ordered = value if heads is None else in_halves(value, heads)
        found[f"{prefix}{NAMES[own]}.weight"] = np.ascontiguousarray(ordered)
    return found


def write_folder(path: Path, weights: dict[str, Array], **more: Any) -> Path:
    """Write a folder with config, weights, and a tokenizer whose tokens are characters."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(CONFIG | more))
    save_file(hub_tensors(weights), path / "model.safetensors")
    tokens = text_metadata()["tokenizer.ggml.tokens"]
    steps = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": False}  # fmt: skip
    special = [
        {"id": number, "content": tokens[number], "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True}
        for number in range(2)
    ]  # fmt: skip
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": None, "pre_tokenizer": steps, "post_processor": None, "decoder": steps,
        "model": {"type": "BPE", "vocab": numbers, "merges": []},
    }  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": TEMPLATE}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path

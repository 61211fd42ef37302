"""Language models of a real one's shape, with random weights: `python -m bench.random_model FILE`.

Sizes are those of SmolLM2-135M and of Llama 3.2 1B and 3.1 8B. Block types are mixed as llama.cpp
mixes them: what gives the logits has more bits, and so has a part of `Q4_K_M`. Rows of a matrix
repeat those of its first tile: how long a product takes does not depend on its numbers.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.gguf import encode
from rlx.ir.block_type import block_type

_TILE = 64
"""Rows that are drawn and packed."""

_SUPER = 256
"""Elements of the blocks of Q4_K and Q6_K; shorter rows take the types of 32 elements."""


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int
    hidden: int
    wide: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool = True

    @property
    def kv_width(self) -> int:
        return self.hidden // self.heads * self.kv_heads


SHAPES = {
    "135m": Shape(30, 576, 1536, 9, 3, 49152),
    "1b": Shape(16, 2048, 8192, 32, 8, 128256),
    "8b": Shape(32, 4096, 14336, 32, 8, 128256, tied=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--shape", choices=tuple(SHAPES), default="1b")
    parser.add_argument("--type", choices=("q4_0", "q4_1", "q8_0", "q4_k_m"), default="q4_k_m")
    options = parser.parse_args()
    write_model(options.file, SHAPES[options.shape], options.type)


def write_model(path: Path, shape: Shape, type: str) -> None:
    """Write a GGUF file of a llama."""
    writer = GGUFWriter(path, "llama", use_temp_file=False)
    _write_head(writer, shape)
    matrices = dict(_matrices(shape, type))
    for name, (scheme, rows, columns) in matrices.items():
        packed = _packed(rows, columns, scheme)
        number = GGMLQuantizationType(block_type(scheme).number)
        writer.add_tensor_info(name, packed.shape, packed.dtype, packed.nbytes, number)
    norms = [
        f"blk.{layer}.{part}_norm.weight"
        for layer in range(shape.layers)
        for part in ("attn", "ffn")
    ]
    vectors = ["output_norm.weight", *norms]
    ones = np.ones(shape.hidden, np.float32)
    for name in vectors:
        writer.add_tensor_info(name, ones.shape, ones.dtype, ones.nbytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for scheme, rows, columns in matrices.values():
        writer.write_tensor_data(_packed(rows, columns, scheme))
    for _ in vectors:
        writer.write_tensor_data(ones)
    writer.close()


def _write_head(writer: Any, shape: Shape) -> None:
    writer.add_block_count(shape.layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.wide)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.hidden // shape.heads)
    writer.add_rope_freq_base(500000.0)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    words = [struct.pack(">H", number % 65536).hex() for number in range(shape.vocabulary)]
    writer.add_token_list([f"{word}{number}" for number, word in enumerate(words)])
    writer.add_token_merges(["0 0"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def _matrices(shape: Shape, type: str) -> Iterator[tuple[str, tuple[str, int, int]]]:
    """Yield each matrix: its name, its block type, its rows and columns."""

    def sized(name: str, rows: int, columns: int, better: bool) -> tuple[str, Any]:
        return f"{name}.weight", (_scheme(type, columns, better), rows, columns)

    yield sized("token_embd", shape.vocabulary, shape.hidden, shape.tied)
    if not shape.tied:
        yield sized("output", shape.vocabulary, shape.hidden, True)
    for layer in range(shape.layers):
        better = type == "q4_k_m" and _takes_more_bits(layer, shape.layers)
        for name, rows, columns, is_better in (
            ("attn_q", shape.hidden, shape.hidden, False),
            ("attn_k", shape.kv_width, shape.hidden, False),
            ("attn_v", shape.kv_width, shape.hidden, better),
            ("attn_output", shape.hidden, shape.hidden, False),
            ("ffn_gate", shape.wide, shape.hidden, False),
            ("ffn_up", shape.wide, shape.hidden, False),
            ("ffn_down", shape.hidden, shape.wide, better),
        ):
            yield sized(f"blk.{layer}.{name}", rows, columns, is_better)


def _takes_more_bits(layer: int, layers: int) -> bool:
    """True for the first and last eighth of the layers, and every third of the others."""
    return not layers // 8 <= layer < 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def _scheme(type: str, columns: int, better: bool) -> str:
    is_super = columns % _SUPER == 0
    if better and type != "q8_0":
        return "q6_k" if is_super else "q8_0"
    if type == "q4_k_m":
        return "q4_k" if is_super else "q5_0"
    return type


def _packed(rows: int, columns: int, scheme: str) -> NDArray[np.uint8]:
    drawn = np.random.default_rng(rows).standard_normal((_TILE, columns)) / np.sqrt(columns)
    packed = encode(drawn.astype(np.float32), scheme)
    return np.tile(packed, (-(-rows // _TILE), 1))[:rows]


if __name__ == "__main__":
    main()

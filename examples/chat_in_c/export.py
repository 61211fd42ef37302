"""Write SmolLM2-135M-Instruct as C: `python -m examples.chat_in_c.export build/chat`.

    cd build/chat && cc -std=gnu11 -O2 -march=native chat.c smollm2.c -lm -o chat && ./chat

`smollm2.c` computes one token in one arena, from `smollm2.weights`; `tokenizer.bin` is the table
with which `chat.c` makes tokens of text. Neither needs Python or a library.
"""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

import rlx
from examples.chat import model_path
from rlx.gguf import GgufFile, read
from rlx.language import TextTokenizer
from rlx.language.decoder import decoder_graph
from rlx.language.tokenizer import byte_spelling

CONTEXT = 1024
QUESTION = "QUESTION"
UNKNOWN = 0
"""What replaces a byte that has no token."""


def main(directory: Path, *, path: Path | None = None, **options: Any) -> None:
    """Write the artifact, the tokenizer's table and the C program; `options` go to `rlx.aot`."""
    file = read(model_path() if path is None else path)
    graph, weights = decoder_graph(file, rows=1, context=CONTEXT)
    state = {
        name: np.zeros(graph.leaf(name).type.static_shape, np.float32) for name in graph.donations
    }
    how = {**dict.fromkeys(weights.values, "file"), **dict.fromkeys(state, "argument")}
    rlx.aot(graph, directory, name="smollm2", params=weights.values, weights=how, **options)
    (directory / "tokenizer.bin").write_bytes(table(file))
    shutil.copy(Path(__file__).with_name("chat.c"), directory)


def table(file: GgufFile) -> bytes:
    """Return the tokenizer as a table of i32 and bytes; `chat.c` says how it is read."""
    tokenizer = TextTokenizer.of(file)
    numbers = {token: number for number, token in enumerate(tokenizer.tokens)}
    merges = [merge.partition(" ") for merge in file.metadata["tokenizer.ggml.merges"]]
    pairs = [
        (numbers[left], numbers[right], rank, numbers[left + right])
        for rank, (left, _, right) in enumerate(merges)
    ]
    bytes_of = [tokenizer.bytes_of(number) for number in range(len(tokenizer.tokens))]
    ends = np.cumsum([len(text) for text in bytes_of], dtype=np.int32)
    characters = sorted(byte_spelling(), key=byte_spelling().__getitem__)
    singles = np.array([numbers.get(c, UNKNOWN) for c in characters], np.int32)
    before, after = chat_parts(tokenizer)
    (end,) = {number for number in tokenizer.end_tokens if number != numbers["<|endoftext|>"]}
    head = struct.pack(
        "<6i", len(bytes_of), len(pairs), len(before), len(after), end, int(ends[-1])
    )
    arrays = [singles, np.array(before), np.array(after), np.array(sorted(pairs)), ends]
    return head + b"".join(a.astype("<i4").tobytes() for a in arrays) + b"".join(bytes_of)


def chat_parts(tokenizer: TextTokenizer) -> tuple[list[int], list[int]]:
    """Return the tokens of the chat template before and after a question."""
    prompt = tokenizer.chat([{"role": "user", "content": QUESTION}])
    question = tokenizer.encode(QUESTION)
    at = next(i for i in range(len(prompt)) if prompt[i : i + len(question)] == question)
    return prompt[:at], prompt[at + len(question) :]


if __name__ == "__main__":
    main(Path(sys.argv[1]), target="native")

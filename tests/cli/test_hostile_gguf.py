"""Names, metadata and tokens of GGUF files, printed: no control reaches the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.cli.main import main
from rlx.gguf import read
from rlx.ir.graph import Graph
from tests.c_lexer import string_content, tokens
from tests.gguf.files import f32, gguf_file
from tests.hostile_names import TEXTS, WORDS
from tests.language.tiny import metadata, random_weights, text_metadata

CONTROLS = "\x1b]0;title\x07\x1b[2J\x1b[31m \u202e \x9b31m \r\x00 <b>"


def model(**changes: object) -> bytes:
    weights = {name: f32(value) for name, value in random_weights().items()}
    return gguf_file(metadata("llama") | text_metadata() | changes, weights)


FILES = {
    "architecture": model(**{"general.architecture": CONTROLS}),
    "count": model(**{"llama.block_count": CONTROLS}),
    "scaling": model(**{"llama.rope.scaling.type": CONTROLS}),
    "tokenizer": model(**{"tokenizer.ggml.model": CONTROLS}),
    "words": model(**{"tokenizer.ggml.pre": CONTROLS}),
    "merges": model(**{"tokenizer.ggml.merges": [CONTROLS]}),
    "chat": model(**{"tokenizer.chat_template": f"{{{{ raise_exception('{CONTROLS}') }}}}"}),
    "syntax": model(**{"tokenizer.chat_template": f"{{% {CONTROLS} %}}"}),
    "tensor": gguf_file({}, {CONTROLS[:60]: f32([1.0])})[:-1],
    "key": gguf_file({CONTROLS: 1}, {}).partition(CONTROLS.encode())[0] + CONTROLS.encode(),
}


@pytest.mark.parametrize("file", FILES)
def test_refusal_of_a_model_prints_no_controls(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    path = tmp_path / "m.gguf"
    path.write_bytes(FILES[file])
    command = ["generate", str(path), "--prompt", "a", "--chat", "--max-tokens", "1"]
    assert main([*command, "--context", "16"]) == 1
    printed = capsys.readouterr()
    assert not [c for c in printed.out + printed.err if not c.isprintable() and c not in "\n\t\r"]
    assert "x1b" in printed.err  # the text is named, spelled out


def test_names_of_tensors_are_strings_in_c(tmp_path: Path) -> None:
    names = [name for name in (*TEXTS, *WORDS) if len(name.encode()) <= 64]
    path = tmp_path / "w.gguf"
    path.write_bytes(gguf_file({}, {name: f32([1.0, 2.0]) for name in names}))
    file = read(path)
    g = Graph("model")
    params = [g.param(name, (2,)) for name in file.tensors]
    g.set_outputs([g.exp(g.concat(*params, axis=0))])
    values = {name: file.dequant_f32(name) for name in file.tensors}
    artifact = rlx.aot(g, tmp_path / "c", params=values, weights="embed", emit_only=True)
    found = tokens(artifact.source.read_text(encoding="utf-8"))
    strings = {string_content(token.text) for token in found if token.kind == "string"}
    assert strings >= set(names)
    assert not {"system", "constructor"} & {token.text for token in found}
    assert np.array_equal(values[names[0]], [1.0, 2.0])

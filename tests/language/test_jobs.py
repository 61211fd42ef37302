"""What language models are for: text from the command line, in little memory, as was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.cli.main import main
from rlx.gguf import encode
from rlx.ir.graph import Graph
from rlx.language import Sampling, load
from rlx.language.params import Accuracy
from rlx.runtime.compile import compile as compile_graph
from rlx.target import detect_target
from tests.language.tiny import random_weights, write_model


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("jobs")
    return write_model(directory / "m.gguf", "llama", random_weights(), packed=True)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("chat", [False, True])
def test_the_command_line_prints_what_the_model_says(
    path: Path, chat: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    options = ["--temperature", "0.8", "--top-k", "9", "--seed", "3", "--context", "32"]
    command = ["generate", str(path), "--prompt", "hello", "--max-tokens", "8", *options]
    assert main([*command, *(["--chat"] if chat else [])]) == 0
    printed = capsys.readouterr()
    model = load(path, context=32, sampling=Sampling(temperature=0.8, top_k=9), seed=3)
    prompt = model.tokenizer.encode("hello")
    if chat:
        prompt = model.tokenizer.chat([{"role": "user", "content": "hello"}])
    said = model.tokenizer.decode(list(model.generate(prompt, max_tokens=8)))
    assert said
    assert printed.out == said + "\n"
    assert "tokens a second" in printed.err


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", ["exact", "int8"])
def test_the_schedule_says_which_accuracy_was_chosen(path: Path, accuracy: Accuracy) -> None:
    model = load(path, context=32, accuracy=accuracy)
    assert len(model._programs) > 0
    for program in model._programs:
        schedule = str(program.schedule)
        assert ("quantize_rows" in schedule) == (accuracy == "int8")
        in_words = accuracy == "int8" and detect_target().dots_unsigned_bytes
        assert ("dequant_matmul_words" in schedule) == in_words


@pytest.mark.parametrize("rows", [1, 64])
def test_packed_weights_are_never_floats_in_memory(rows: int) -> None:
    """Bytes as given and as laid out, a decoded panel, `x` and the result; floats are 8 MB."""
    weights = encode(np.ones((1024, 2048), np.float32), "q4_0")
    g = Graph("product")
    w = g.param("w", weights.shape, "u8")
    g.set_outputs([g.dequant_matmul(g.input("x", (rows, 2048)), w, scheme="q4_0")])
    program = compile_graph(g, params={"w": weights}, threads=1)
    operands = 4 * rows * (2048 + 1024)
    assert len(program.arena.bytes) < 2 * weights.nbytes + operands + 2**17
    source = program.c_source
    assert all(name not in source for name in ("malloc", "calloc", "mmap"))

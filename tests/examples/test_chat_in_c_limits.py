"""The C program refuses a question that its buffers do not hold, and a damaged table."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

CHAT = Path(__file__).parents[2] / "examples" / "chat_in_c" / "chat.c"
MODEL = """
#include <stdint.h>
#include <stddef.h>
enum { SMOLLM2_OK, SMOLLM2_ARENA_BYTES = 64, SMOLLM2_Y_1_BYTES = 64,
       SMOLLM2_BIAS_BYTES = 64 };
static inline const char *smollm2_status_string(int status) { return status ? "bad" : "ok"; }
static inline int smollm2_init(void *arena, size_t bytes) { return arena == NULL || bytes == 0; }
static inline int smollm2_load_weights(void *arena, const void *data, size_t bytes) {
  return arena == NULL || data == NULL || bytes == 0;
}
static inline int smollm2_setup(void *arena) { return arena == NULL; }
static inline int smollm2_call(void *arena, int64_t n, const int32_t *token, const int32_t *history,
                               const int32_t *at, const uint32_t *seed, const int32_t *start,
                               const float *how, const float *bias, int32_t *next,
                               float *logits) {
  (void)arena, (void)n, (void)history, (void)at, (void)seed, (void)start, (void)how, (void)bias;
  (void)logits;
  *next = *token == 2 ? 1 : *token;  // the template ends with 2, an answer with 1
  return 0;
}
"""
"""A model that repeats: what surrounds it is looked at."""

HEAD = (3, 0, 1, 1, 1, 3)  # tokens, merges, before, after, end, bytes of text
TABLE = (*[0] * 256, 0, 2, 1, 2, 3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    directory = tmp_path_factory.mktemp("chat")
    (directory / "smollm2.h").write_text(MODEL)
    (directory / "smollm2.weights").write_bytes(b"weights")
    flags = ["-std=gnu11", "-O1", "-fsanitize=address,undefined", f"-I{directory}"]
    subprocess.run(["gcc", *flags, CHAT, "-o", directory / "chat"], check=True, timeout=600)
    return directory / "chat"


def ask(program: Path, question: str, head: tuple[int, ...] = HEAD, text: bytes = b"abc") -> str:
    """Ask with a table of three tokens; return what was said in complaint."""
    table = struct.pack(f"<{6 + len(TABLE)}i", *head, *TABLE) + text
    (program.parent / "tokenizer.bin").write_bytes(table)
    done = subprocess.run(
        [program, question], cwd=program.parent, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == (0 if "tokens a second" in done.stderr else 1), done.stderr
    return done.stderr.strip()


def test_a_question_that_fits_is_answered(program: Path) -> None:
    assert "tokens a second" in ask(program, "x" * 1000)


def test_a_question_of_more_tokens_than_the_context_is_refused(program: Path) -> None:
    assert ask(program, "x" * 4096) == "context: is full"


def test_a_question_longer_than_the_buffer_of_tokens_is_refused(program: Path) -> None:
    assert ask(program, "x" * 100_000) == "question: is too long"


@pytest.mark.parametrize("head", [(3, 0, 1, 1, 1, 4), (-1, 1, 1, 1, 1, 3), (3, 0, 3, -1, 1, 3)])
def test_a_table_whose_counts_do_not_fit_is_refused(program: Path, head: tuple[int, ...]) -> None:
    assert ask(program, "x", head) == "tokenizer.bin: is damaged"

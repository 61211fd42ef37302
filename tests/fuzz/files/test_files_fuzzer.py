"""Five hundred drawn files, at fixed seeds; and that the fuzzer finds what is wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("tokenizers")

import rlx
from rlx.errors import InternalError, RlxError
from rlx.ir.graph import Graph
from tests.fuzz.files import examine as examining
from tests.fuzz.files import natively
from tests.fuzz.files.case import Kind, Loaded
from tests.fuzz.files.examine import KINDS, Report, examine

needs_sanitizers = pytest.mark.skipif(
    natively.compiler() is None, reason="there is no C compiler with sanitizers"
)


def right(block: int, count: int, kinds: tuple[str, ...], most_native: int) -> None:
    report = examine(block, count, kinds=kinds, most_native=most_native)
    assert not report.failures, "\n".join(report.failures)
    loaded = sum(n for name, n in report.counts.items() if name.endswith("loaded"))
    refused = sum(n for name, n in report.counts.items() if name.endswith("refused"))
    assert loaded > count / 10
    assert refused > count / 10
    if natively.compiler() is not None:
        assert report.counts["compared"] >= most_native / 2


@pytest.mark.slow
def test_drawn_onnx_models_are_refused_or_right() -> None:
    right(1, 220, ("onnx",), 10)


@pytest.mark.slow
def test_drawn_gguf_files_are_refused_or_right() -> None:
    right(2, 80, ("gguf",), 6)


@pytest.mark.slow
def test_drawn_graphs_are_refused_or_right() -> None:
    right(3, 100, ("text", "serialized"), 6)


@pytest.mark.slow
def test_drawn_programs_are_refused_or_sound() -> None:
    right(4, 20, ("program",), 0)


@pytest.mark.slow
def test_drawn_files_of_arrays_are_refused_or_right() -> None:
    right(5, 80, ("safetensors", "npy", "npz"), 4)


def test_a_seed_gives_the_same_files_always() -> None:
    for name in ("onnx", "gguf", "text", "safetensors", "npy", "npz"):
        kind, _ = KINDS[name]
        assert kind.draw(random.Random("1/2")) == kind.draw(random.Random("1/2"))


def chain() -> Graph:
    g = Graph("chain")
    g.set_outputs([g.tanh(g.input("x", (5,), "f32") * 2.0)])
    return g


def examined(
    monkeypatch: pytest.MonkeyPatch, load: Callable[..., Loaded], native: int = 0
) -> Report:
    """Return what becomes of two files of a kind that `load` reads."""
    kind = Kind("made", ".made", lambda _: b"content", load)
    monkeypatch.setattr(examining, "KINDS", {"made": (kind, 1)})
    return examine(0, 2, most_native=native)


def raising(error: BaseException) -> Callable[..., Loaded]:
    def load(path: Path, _: Any) -> Loaded:
        assert path.read_bytes() == b"content"
        raise error

    return load


def test_typed_errors_are_refusals_and_others_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(monkeypatch, raising(RlxError("no"))).counts["made refused"] == 2
    for error in (KeyError("x"), MemoryError(), RecursionError(), InternalError("x")):
        assert len(examined(monkeypatch, raising(error)).failures) == 2


@pytest.mark.slow
def test_what_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_: Path, __: Any) -> Loaded:
        stop = time.process_time() + 10
        while time.process_time() < stop:
            pass
        return Loaded()

    monkeypatch.setattr(examining, "SECONDS", 0.2)
    failures = examined(monkeypatch, load).failures
    assert len(failures) == 2
    assert "more than 0.2 s" in failures[0]


@pytest.mark.slow
@needs_sanitizers
def test_what_differs_from_the_reference_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not examined(monkeypatch, lambda *_: Loaded(chain()), 2).failures
    real = natively.run
    monkeypatch.setattr(natively, "run", lambda *a: [y + 1e-3 for y in real(*a) or []])
    failures = examined(monkeypatch, lambda *_: Loaded(chain()), 1).failures
    assert len(failures) == 1
    assert "output 0 at (0,)" in failures[0]


@pytest.mark.slow
@needs_sanitizers
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("((unsigned char *)arena)[1 << 20] = 1", "AddressSanitizer"),
        ("int n = 2147483647; n += (arena != NULL); if (n == 0) return n", "overflow"),
        ("does not compile", "error"),
    ],
)
def test_code_that_sanitizers_stop_is_a_failure(statement: str, said: str, tmp_path: Path) -> None:
    program = natively.export(chain(), {}, tmp_path, 0)
    source = program.artifact.source
    text = source.read_text()
    start = text.index("int p0_run(")
    body = text.index("{", start) + 1
    changed = text[:body] + f" {statement};" + text[body:]
    source.write_text(changed)
    inputs = {"x": np.ones(5, np.float32)}
    with pytest.raises(natively.NativeError, match=said):
        natively.run(natively.build([program], tmp_path), 0, program, inputs)


@needs_sanitizers
def test_programs_share_one_binary(tmp_path: Path) -> None:
    other = rlx.Graph("other")
    other.set_outputs([other.input("y", (2,), "i32") + 1])
    programs = [natively.export(g, {}, tmp_path, i) for i, g in enumerate((chain(), other))]
    binary = natively.build(programs, tmp_path)
    (found,) = natively.run(binary, 0, programs[0], {"x": np.ones(5, np.float32)}) or []
    assert np.allclose(found, np.tanh(2.0))
    (found,) = natively.run(binary, 1, programs[1], {"y": np.array([1, 2], np.int32)}) or []
    assert found.tolist() == [2, 3]

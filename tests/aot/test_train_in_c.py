"""A C program trains on the digits, and gets what Python gets, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.packaged import is_installed
from tests.aot.building import STRICT, needs_compiler, run

if not is_installed("sklearn"):
    pytest.skip("the digits come with scikit-learn", allow_module_level=True)
pytest.importorskip("rich", reason="examples.digits shows its progress with rich")

SOURCE = Path(__file__).parents[2] / "examples" / "train_in_c" / "train.c"


@pytest.mark.guarantee(
    "Results",
    "Exported C has the bits of the call from Python, training included.",
)
@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("name", "least"), [("mlp", 90), ("conv", 97)])
def test_c_program_trains_to_the_bits_of_the_python_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, least: float
) -> None:
    from examples.train_in_c.export import NETWORKS, export, train_in_python

    monkeypatch.setenv("RLX_NUM_THREADS", "1")
    export(tmp_path, NETWORKS[name](), target="native")
    libraries = (tmp_path / "libdigits_step.a", tmp_path / "libdigits_predict.a")
    program = tmp_path / "train"
    run("cc", "-std=c11", *STRICT, f"-I{tmp_path}", SOURCE, *libraries, "-lm", "-o", program)
    lines = run(program, tmp_path).splitlines()
    arrays, losses = train_in_python(NETWORKS[name]())
    assert lines[:-1] == [f"epoch {i:2}: loss {loss:.9g}" for i, loss in enumerate(losses, 1)]
    assert float(lines[-1].removeprefix("accuracy ").rstrip("%")) > least
    assert (tmp_path / "trained.bin").read_bytes() == b"".join(a.tobytes() for a in arrays)


def test_the_program_is_short_and_plain() -> None:
    text = SOURCE.read_text()
    assert len(text.splitlines()) < 200
    assert "Python" not in text

"""What `docs/language_models.md` shows runs, on small models with random weights."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rlx.cli.main import main
from tests.docs.test_documentation import ROOT, blocks
from tests.language.folder import load_file, write_folder
from tests.language.test_embedding import embedding_file
from tests.language.test_peft import random_factors, write_adapters
from tests.language.tiny import random_weights, write_model

PAGE = ROOT / "docs" / "language_models.md"
FOLDER = Path("SmolLM2-135M-Instruct")


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the page names, in the current directory."""
    for package in ("tokenizers", "jinja2", "llguidance", "starlette"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    weights = random_weights()
    for name in ("model", "small"):
        write_model(Path(f"{name}.gguf"), "llama", weights, packed=True)
    factors = random_factors(load_file(write_folder(FOLDER, weights) / "model.safetensors"))
    write_adapters(Path("adapters"), factors)
    words = ["▁search", "▁query", "▁document", "▁why", "▁is", "▁the", "▁sky", "▁blue"]
    embedding_file(Path("nomic-embed-text-v1.5.gguf"), words=words)


@pytest.mark.slow
def test_the_python_of_the_page_runs() -> None:
    names: dict[str, Any] = {"conversations": [([5, 6, 7, 8], 2), ([7, 5, 6], 1)]}
    for number, block in enumerate(blocks(PAGE, "py")):
        exec(compile(block, f"{PAGE.name}[{number}]", "exec"), names)
    assert len(names["vectors"]) == 2
    assert Path("merged.gguf").exists()


@pytest.mark.slow
def test_the_commands_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = re.findall(r"^\$ rlx (.*)$", PAGE.read_text(), re.MULTILINE)
    assert {line.split()[0] for line in lines} >= {"generate", "chat"}
    for line in lines:
        monkeypatch.setattr("sys.stdin", io.StringIO("Why?\n"))
        assert main(shlex.split(line)) == 0, line

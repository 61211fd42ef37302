"""The page that follows one program through all stages shows what rlx makes of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlx.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "stages.md").read_text(encoding="utf-8")
STAGES = ("graph", "plan", "schedule", "kernels", "c")
SHAPES = ("x=f32[32,3]", "w=f32[3,16]", "b=f32[16]")


def excerpts() -> list[str]:
    return re.findall(r"^```(?:text|c)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def without_comments(text: str) -> str:
    return re.sub(r"[ \t]*(# %\d|//).*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("stage", STAGES)
def test_the_excerpt_of_a_stage_is_what_inspect_prints(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "layer.py").write_text(program)
    shapes = [word for shape in SHAPES for word in ("--shape", shape)]
    source = f"{tmp_path / 'layer.py'}:layer"
    assert main(["inspect", source, *shapes, "--target", "x86-64-v3", "--stage", stage]) == 0
    excerpt = excerpts()[STAGES.index(stage)]
    assert without_comments(excerpt) in without_comments(capsys.readouterr().out)


def test_the_picture_of_the_architecture_quotes_these_stages() -> None:
    (picture,) = re.findall(
        r"^```text\n(.*?)^```", (DOCS / "architecture.md").read_text(), re.S | re.M
    )
    names = "Graph|MemoryPlan|Schedule|Module of kernels|C11 or LLVM IR"
    quoted = re.findall(rf"^ (?:{names}) +(\S.*)$", picture, re.MULTILINE)
    assert len(quoted) == 6
    assert [line for line in quoted if line not in PAGE] == ["fused: matmul, add, tanh"]

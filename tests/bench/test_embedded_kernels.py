"""Instructions of exported kernels on aarch64, next to those of loops written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.embedded.ggml_blocks import count
from bench.embedded.kernels import counts
from tests.aot.building import require


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["conv3x3", "matmul"])
def test_products_take_at_most_as_many_instructions_as_loops_do(
    kernel: str, tmp_path: Path
) -> None:
    """Vectors that the compiler took apart would have five times as many."""
    require("qemu-aarch64")
    pytest.importorskip("ziglang")
    ours, loops = counts(kernel, "aarch64", tmp_path)
    assert ours <= 1.3 * loops


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "ggml"), [(1, 85_134), (8, 648_271)])
def test_products_of_packed_blocks_take_about_as_many_instructions_as_those_of_ggml(
    rows: int, ggml: int, tmp_path: Path
) -> None:
    """`ggml` was counted by `python -m bench.embedded.ggml_blocks`."""
    require("qemu-aarch64")
    pytest.importorskip("ziglang")
    assert count(rows, 256, 1024, tmp_path) <= 1.3 * ggml

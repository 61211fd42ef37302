"""The example for WebAssembly, run in wasmtime, with vectors and without."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from examples.microcontroller.run import X, classify, weights
from examples.webassembly.run import EXPORTS, HERE, build, run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="the wheel ziglang is not installed"
)


@pytest.mark.parametrize("target", ["wasm32", "wasm32-simd128"])
def test_a_network_runs_as_a_module_that_imports_nothing(tmp_path: Path, target: str) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    module = build(tmp_path, target)
    loaded = wasmtime.Module.from_file(wasmtime.Engine(), str(module))
    assert [each.name for each in loaded.imports] == []
    assert {*EXPORTS, "memory"} <= {each.name for each in loaded.exports}
    np.testing.assert_allclose(run(module, X, 4), np.asarray(classify(weights(), X))[0], atol=1e-5)
    assert module.stat().st_size < 16_000
    assert (tmp_path / "page.html").is_file()


def test_the_page_asks_for_what_the_module_exports() -> None:
    text = (HERE / "page.html").read_text()
    found = re.search(r"const \{ memory, (.*?) \} = instance.exports", text)
    assert found is not None
    assert tuple(found[1].split(", ")) == EXPORTS
    assert f"INPUTS = {X.size}, CLASSES = 4" in text

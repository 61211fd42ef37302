"""Export a network for WebAssembly, run it in wasmtime, and write a page that runs it.

    python -m examples.webassembly.run --output build/webassembly --simd
    python -m http.server --directory build/webassembly       # then open page.html

Needs the packages `ziglang` and `wasmtime`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import rlx
from examples.microcontroller.run import X, classify, weights
from rlx.runtime.cross import find_compiler

HERE = Path(__file__).parent
EXPORTS = ("start", "input", "output", "run")


def build(directory: Path, target: str = "wasm32") -> Path:
    """Write the module and the page to `directory`; no libc and no system is part of it."""
    artifact = rlx.aot(
        classify, directory, name="classify", example_inputs=(weights(), X), param_argnums=(0,),
        output_names=("y",), weights="embed", target=target, math="none",
    )  # fmt: skip
    module = directory / "classify.wasm"
    compiler = find_compiler("wasm32")  # what it adds has no vectors: one build of libraries serves
    command = [*compiler.command, *compiler.flags, "-Os", "-I", str(directory)]
    command += [str(HERE / "module.c"), str(artifact.archive), "-mexec-model=reactor"]
    command += [f"-Wl,--export={name}" for name in EXPORTS]
    subprocess.run([*command, "-Wl,--strip-all", "-o", str(module)], check=True)
    shutil.copy(HERE / "page.html", directory)
    return module


def run(module: Path, x: np.ndarray, results: int) -> np.ndarray:
    """Return what the module computes of `x`, in wasmtime."""
    import wasmtime

    engine = wasmtime.Engine()
    store: Any = wasmtime.Store(engine)
    instance = wasmtime.Instance(store, wasmtime.Module.from_file(engine, str(module)), [])
    exports: Any = instance.exports(store)
    if exports["start"](store) != 0:
        raise RuntimeError("the network does not start")
    memory = exports["memory"]
    memory.write(store, x.astype("<f4").tobytes(), exports["input"](store))
    if exports["run"](store) != 0:
        raise RuntimeError("the network does not run")
    start = exports["output"](store)
    return np.frombuffer(memory.read(store, start, start + 4 * results), "<f4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/webassembly"))
    parser.add_argument("--simd", action="store_true", help="use vectors of 16 bytes")
    arguments = parser.parse_args()
    module = build(arguments.output, "wasm32-simd128" if arguments.simd else "wasm32")
    scores = run(module, X, 4)
    print(f"{module}: {module.stat().st_size} bytes")
    print("scores: " + " ".join(f"{score:.4f}" for score in scores))


if __name__ == "__main__":
    main()

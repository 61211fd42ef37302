"""Build wheel and source package, and try each where something is missing.

    python tools/check_packages.py

The wheel is installed without llvmlite, beside a C compiler; then in its place the source package
with llvmlite, where no compiler is on the path. Needs the network, for the dependencies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMOKE = """
import importlib.util, shutil, sys, tempfile
import numpy as np
import rlx
import rlx.numpy as rnp

has_llvm, has_compiler = (word == "yes" for word in sys.argv[1:])
assert (importlib.util.find_spec("llvmlite") is not None) == has_llvm
assert (shutil.which("cc") is not None) == has_compiler
x = np.linspace(-1, 1, 12).reshape(3, 4)
f = rlx.jit(lambda x: rnp.tanh(x @ x.T).sum())
np.testing.assert_allclose(np.asarray(f(x)), np.tanh(x @ x.T).sum(), rtol=1e-12)
g = rlx.jit(rlx.grad(lambda x: (x * x).sum()))
np.testing.assert_allclose(np.asarray(g(x)), 2 * x)
try:
    rlx.jit(lambda x: x + 1, backend="c" if has_llvm else "llvm")(x)
except rlx.RlxError as error:
    print("as it should:", error.message)
else:
    raise SystemExit("a backend that is not there ran")
artifact = rlx.aot(f, tempfile.mkdtemp(), name="smoke", example_inputs=(x,))
assert (artifact.library is not None) == has_compiler
print("ok", rlx.__version__)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        wheel, source = build(directory)
        python = environment(directory / "tried", str(wheel))
        try_package(python, directory / "wheel", has_llvm=False)
        run(sys.executable, "-m", "pip", "--python", python, "uninstall", "--quiet", "--yes", "rlx")
        install(python, f"rlx[llvm] @ {source.as_uri()}")
        try_package(python, directory / "source", has_llvm=True)


def build(directory: Path) -> tuple[Path, Path]:
    """Return the wheel, made from the source package, and that."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    python = environment(directory / "build", "build", *needs)
    run(python, "-m", "build", "--no-isolation", "--outdir", str(directory / "dist"), str(ROOT))
    dist = directory / "dist"
    return next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))


def try_package(python: Path, cache: Path, *, has_llvm: bool) -> None:
    """Run the smoke test; with LLVM there is no compiler on the path."""
    path = str(python.parent) if has_llvm else os.environ["PATH"]
    answers = ("yes" if has_llvm else "no", "no" if has_llvm else "yes")
    run(python, "-c", SMOKE, *answers, PATH=path, RLX_CACHE_DIR=str(cache))


def environment(directory: Path, *packages: str) -> Path:
    """Return the Python of a new environment with `packages` in it."""
    venv.create(directory)
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install(python, *packages)
    return python


def install(python: Path, *packages: str) -> None:
    """Install packages with the pip of this Python: another would have to be installed first."""
    ways = ("install", "--quiet", "--disable-pip-version-check", "--no-compile")
    run(sys.executable, "-m", "pip", "--python", python, *ways, *packages)


def run(*command: str | Path, **variables: str) -> None:
    dropped = ("PYTHONPATH", "RLX_CC", "CC", "RLX_BLAS")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    words = [str(word) for word in command]
    subprocess.run(words, check=True, cwd=tempfile.gettempdir(), env={**kept, **variables})


if __name__ == "__main__":
    main()

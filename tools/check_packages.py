"""Build wheel and source package, and try each in an environment where something is missing.

    python tools/check_packages.py

The wheel is installed without llvmlite, beside a C compiler; the source package with llvmlite,
where no compiler is on the path. Needs the network, for the dependencies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
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
        try_package(directory / "plain", str(wheel), has_llvm=False)
        try_package(directory / "llvm", f"rlx[llvm] @ {source.as_uri()}", has_llvm=True)


def build(directory: Path) -> tuple[Path, Path]:
    """Return the wheel, made from the source package, and that."""
    python = environment(directory / "build", "build")
    run(python, "-m", "build", "--outdir", str(directory / "dist"), str(ROOT))
    dist = directory / "dist"
    return next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))


def try_package(directory: Path, package: str, *, has_llvm: bool) -> None:
    """Install a package and run the smoke test; with LLVM there is no compiler on the path."""
    python = environment(directory, package)
    path = str(python.parent) if has_llvm else os.environ["PATH"]
    answers = ("yes" if has_llvm else "no", "no" if has_llvm else "yes")
    run(python, "-c", SMOKE, *answers, PATH=path, RLX_CACHE_DIR=str(directory / "cache"))


def environment(directory: Path, package: str) -> Path:
    """Return the Python of a new environment with `package` in it."""
    venv.create(directory, with_pip=True)
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package)
    return python


def run(*command: str | Path, **variables: str) -> None:
    dropped = ("PYTHONPATH", "RLX_CC", "CC", "RLX_BLAS")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    words = [str(word) for word in command]
    subprocess.run(words, check=True, cwd=tempfile.gettempdir(), env={**kept, **variables})


if __name__ == "__main__":
    sys.exit(main())

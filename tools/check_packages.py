"""Build wheel and source package, check what is in them, and try each where something is missing.

    python tools/check_packages.py [wheel | source | pythons]

The wheel is installed without llvmlite, with a C compiler on the path; the source package with
llvmlite, where no compiler is on the path; the wheel also for every other Python of this machine.
Needs the network, for the dependencies.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("rlx", "tools", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
"""What packages are made of."""
SMOKE = """
import importlib.resources, importlib.util, shutil, sys, tempfile
import numpy as np
import rlx
import rlx.numpy as rnp

assert "def softmax(" in importlib.resources.files("rlx.ir").joinpath("builders.pyi").read_text()
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
print("ok", rlx.__version__, "Python", *sys.version_info[:2], "NumPy", np.__version__)
"""


def main() -> None:
    for kind in sys.argv[1:] or KINDS:
        with tempfile.TemporaryDirectory() as scratch:
            KINDS[kind](Path(scratch))


def try_wheel(directory: Path) -> None:
    """Try the wheel, which is made from the source package."""
    wheel = next(build(directory).glob("*.whl"))
    check_wheel(wheel)
    try_package(directory, str(wheel), has_llvm=False)


def try_source(directory: Path) -> None:
    source = next(build(directory, "--sdist").glob("*.tar.gz"))
    try_package(directory, f"rlx[llvm] @ {source.as_uri()}", has_llvm=True)


def check_wheel(path: Path) -> None:
    """Compare files and metadata of the wheel with the tree: one version, types, license, data."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = message_from_bytes(wheel.read(metadata))
    (version,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "rlx/__init__.py").read_text(), re.M)
    tree = {p.relative_to(ROOT).as_posix() for p in (ROOT / "rlx").rglob("*") if p.is_file()}
    absent = {name for name in tree if "__pycache__" not in name} - names
    assert not absent, f"not in the wheel: {sorted(absent)}"
    assert "rlx/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"rlx", f"rlx-{version}.dist-info"}
    assert fields["Version"] == version
    assert fields["License-Expression"] == "MIT"
    assert fields.get_all("License-File") == ["LICENSE"]
    assert "all" in fields.get_all("Provides-Extra", [])
    assert "Typing :: Typed" in fields.get_all("Classifier", [])


def try_pythons(directory: Path) -> None:
    """Try the wheel in an environment of each newer Python: on the path, or one of pyenv's."""
    wheel = next(build(directory).glob("*.whl"))
    for python in other_pythons():
        place = directory / python.parts[-3]
        run(python, "-m", "venv", "--without-pip", place / "tried")
        install(executable(place / "tried"), str(wheel))
        smoke(place, has_llvm=False)


def other_pythons() -> list[Path]:
    """Return one Python of each minor version from 3.11 on, without this process's version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = (f"python3.{minor}" for minor in range(11, 20))
    found = [*map(shutil.which, names), *sorted(map(str, pyenv.glob("3.1[1-9]*/bin/python")))]
    by_version: dict[str, Path] = {}
    for python in filter(None, found):
        command = [python, "-c", "import sys; print(*sys.version_info[:2], sys.base_prefix)"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:  # a shim of a version that is not chosen fails
            major, minor, prefix = done.stdout.strip().split(" ", 2)
            by_version.setdefault(f"{major}.{minor}", Path(prefix) / "bin" / "python3")
    by_version.pop("{}.{}".format(*sys.version_info), None)
    return list(by_version.values())


KINDS = {"wheel": try_wheel, "source": try_source, "pythons": try_pythons}


def build(directory: Path, *options: str) -> Path:
    """Return the directory of what was built."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    python = environment(directory / "build", "build", *needs)
    dist = directory / "dist"
    tree = copied(directory / "tree")
    run(python, "-m", "build", "--no-isolation", *options, "--outdir", dist, tree)
    return dist


def copied(tree: Path) -> Path:
    """Return a copy of what packages are made of: a build leaves files there, in others' way."""
    tree.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, tree)
    return tree


def try_package(directory: Path, package: str, *, has_llvm: bool) -> None:
    """Install a package and run the smoke test."""
    environment(directory / "tried", package)
    smoke(directory, has_llvm=has_llvm)


def smoke(directory: Path, *, has_llvm: bool) -> None:
    """Run the smoke test in the environment; with LLVM there is no compiler on the path."""
    python = executable(directory / "tried")
    path = str(python.parent) if has_llvm else os.environ["PATH"]
    answers = ("yes" if has_llvm else "no", "no" if has_llvm else "yes")
    run(python, "-c", SMOKE, *answers, PATH=path, RLX_CACHE_DIR=str(directory / "cache"))


def environment(directory: Path, *packages: str) -> Path:
    """Return the Python of a new environment with `packages` in it."""
    venv.create(directory)
    install(executable(directory), *packages)
    return executable(directory)


def executable(directory: Path) -> Path:
    return directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


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

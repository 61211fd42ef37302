"""Run rlx's tests, or any program, by Python for aarch64 under QEMU's user-mode emulation.

    python tools/arm64.py make build/arm64
    build/arm64/python -m pytest -n 0 --draw 48 -m "not slow" tests/runtime tests/codegen

`make` needs the network and Debian's `qemu-user`, `gcc-aarch64-linux-gnu` and `apt-get`; it takes
660 MB. Python and its libraries are Debian's, packages are wheels. The C compiler is a cross
compiler, which is not emulated; programs that it makes are. The processor has `dotprod`, `i8mm` and
`bf16`, and no SVE.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = "3.11"
PACKAGES = ("python3.11", "libpython3.11-dev", "libstdc++6", "libffi8")
EXTRAS = ("llvm", "test")
LEFT_OUT = ("cppcheck", "httpx", "starlette", "wasmtime")
"""Packages that tests of runtime, codegen, passes, ONNX and GGUF do without."""
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
"""Debian's own, as this machine has them."""
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
FEATURES = "fp asimd evtstrm crc32 atomics fphp asimdhp asimdrdm asimddp i8mm bf16"
EMULATED = 'exec qemu-aarch64 -cpu max,sve=off -L "{root}"'
PYTHON = """#!/bin/sh
# Python for aarch64; it and what it starts by sys.executable are emulated.
export RLX_CC="{directory}/cc" RLX_CACHE_DIR="{directory}/cache"
export PYTHONPATH="{tree}" PYTHONPYCACHEPREFIX="{directory}/bytecode" CPATH="{root}/usr/include"
{emulated} -0 "{root}/usr/bin/emulated" "{root}/usr/bin/python{version}" "$@"
"""
COMPILER = """#!/bin/sh
# A cross compiler as the C compiler of the emulated machine: programs become scripts that run them.
program=yes out= before=
for word; do
  shift
  case $word in
    -march=native) word=-march=armv8.2-a+dotprod+i8mm+bf16 ;;
    -shared|-c|-E|-S|--version|-dumpmachine) program= ;;
  esac
  [ "$before" = -o ] && out=$word
  before=$word
  set -- "$@" "$word"
done
[ "$program" ] && [ "$out" ] || exec aarch64-linux-gnu-gcc "$@"
aarch64-linux-gnu-gcc "$@" -o "$out.elf" || exit
printf '#!/bin/sh\\n%s "%s.elf" "$@"\\n' '{emulated}' "$out" > "$out"
chmod +x "$out"
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=["make"])
    parser.add_argument("directory", type=Path)
    make(parser.parse_args().directory.absolute())


def make(directory: Path) -> None:
    """Write the root of the emulated system, and the commands `python` and `cc`."""
    root = directory / "root"
    root.mkdir(parents=True)
    for package in _downloaded(directory / "apt"):
        run("dpkg", "-x", package, root)
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nFeatures\t: {FEATURES}\n\n")
    _install(root / "usr/lib/python3/dist-packages")
    emulated = EMULATED.format(root=root)
    names = {"directory": directory, "tree": ROOT, "root": root, "version": VERSION}
    python = root / "usr/bin/emulated"
    for path, text in (
        (directory / "python", PYTHON),
        (python, PYTHON),
        (directory / "cc", COMPILER),
    ):
        path.write_text(text.format(emulated=emulated, **names))
        path.chmod(0o755)


def _downloaded(directory: Path) -> list[Path]:
    """Return Debian's packages for arm64 with all that they need; nothing is installed."""
    for part in ("lists/partial", "cache/archives/partial"):
        (directory / part).mkdir(parents=True)
    (directory / "status").touch()
    (directory / SOURCES.name).write_text(SOURCES.read_text())
    settings = {
        "Dir::State::Lists": directory / "lists", "Dir::State::status": directory / "status",
        "Dir::Cache": directory / "cache", "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": directory, "APT::Architecture": "arm64",
        "APT::Architectures": "arm64", "APT::Install-Recommends": "0",
    }  # fmt: skip
    options = [f"-o{name}={value}" for name, value in settings.items()]
    run("apt-get", "-qq", *options, "update")
    run("apt-get", "-qq", *options, "--download-only", "-y", "install", *PACKAGES)
    return sorted((directory / "cache/archives").glob("*.deb"))


def _install(directory: Path) -> None:
    """Install the wheels for aarch64 of rlx's dependencies and of its tests'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (name for extra in EXTRAS for name in project["optional-dependencies"][extra])
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    kinds = ("--only-binary=:all:", "--python-version", VERSION, *platforms)
    wanted = (*project["dependencies"], *(name for name in extras if not name.startswith(LEFT_OUT)))
    run(sys.executable, "-m", "pip", "install", "--quiet", *kinds, "--target", directory, *wanted)


def run(*command: str | Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([str(word) for word in command], check=True, env=environment)


if __name__ == "__main__":
    main()

"""The small programs as C by rlx, CasADi and tinygrad on this machine: the time of a run in ns.

    python -m bench.embedded.native [program ...]

Each maker's C is compiled with `-O3 -march=native` by GCC and by clang; the programs run by turns,
and the least of all rounds counts. Needs the packages `casadi` and `tinygrad`. One thread.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.embedded.__main__ import FLAGS, HERE
from bench.embedded.peers import MAKERS, make
from bench.embedded.programs import LARGE, PROGRAMS

COMPILERS = ("gcc", "clang")
TURNS = 5


def build(maker: str, name: str, compiler: str, directory: Path) -> Path | None:
    """Return the program that times the maker's C; None if it has none, or does not compile."""
    directory.mkdir()
    program = make(maker, name, "native", directory)
    if program is None:
        return None
    sources = [HERE / "timing.c", program.file]
    if maker == "rlx":
        sources.insert(0, HERE / "once.c")
    out = directory / "program"
    command = [compiler, "-O3", "-march=native", "-w", *FLAGS, *program.flags]
    done = subprocess.run([*command, *map(str, sources), "-lm", "-o", str(out)], check=False,
                          capture_output=True, timeout=300)  # fmt: skip
    return out if done.returncode == 0 else None


def row(name: str, compiler: str) -> str:
    """Return a row of the table: nanoseconds of every maker's program."""
    with tempfile.TemporaryDirectory() as place:
        built = {m: build(m, name, compiler, Path(place) / m) for m in MAKERS}
        least: dict[str, float] = {}
        for _ in range(TURNS):
            for maker, program in built.items():
                if program is not None:
                    done = subprocess.run([program], check=True, capture_output=True, text=True)
                    least[maker] = min(float(done.stdout), least.get(maker, float("inf")))
    cells = (f"{least[maker]:.0f}" if maker in least else "-" for maker in MAKERS)
    return f"| {name} | {compiler} | {' | '.join(cells)} |"


def main() -> None:
    print(f"| program | compiler | {' | '.join(MAKERS)} |")
    print("|" + "---|" * (2 + len(MAKERS)))
    for name in sys.argv[1:] or (*PROGRAMS, *LARGE):
        for compiler in COMPILERS:
            print(row(name, compiler), flush=True)


if __name__ == "__main__":
    main()

"""PyTorch models by eager mode, inductor and rlx in turn: first calls, later calls and ratios.

python -m bench.torch_programs [NAME ...] [--write FILE]

Each is measured in a process of its own, on one thread, forward and as a training step; times are
the best of some rounds in which all take turns. Forward calls of rlx are made with `resident`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_HEAD = (
    "| program | eager us | inductor us | rlx us | rlx : eager | rlx : inductor "
    "| first call: inductor s | rlx s | ratio |\n|---|---|---|---|---|---|---|---|---|"
)


def run(name: str, *, is_step: bool, rounds: int) -> dict[str, Any]:
    """Return what `measure` prints for a program."""
    command = [
        sys.executable, "-m", "bench.torch_programs.measure", name, "--rounds", str(rounds),
        *(["--step"] if is_step else []),
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(_ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=_ROOT)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, *, is_step: bool, rounds: int) -> str:
    """Return one line of the table."""
    found = run(name, is_step=is_step, rounds=rounds)
    own = "rlx" if is_step else "rlx_resident"
    eager, inductor, rlx = (found["best"][peer] for peer in ("eager", "inductor", own))
    theirs, ours = found["first"]["inductor"], found["first"][own]
    label = f"{name}, step" if is_step else name
    return (
        f"| {label} | {eager:.0f} | {inductor:.0f} | {rlx:.0f} | {rlx / eager:.2f} "
        f"| {rlx / inductor:.2f} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.2f} |"
    )


def main() -> None:
    """Measure the programs that are named, by default all."""
    from bench.torch_programs.programs import PROGRAMS

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    lines = [_HEAD]
    print(_HEAD, flush=True)
    for name in options.names or PROGRAMS:
        for is_step in (False, True):
            lines.append(row(name, is_step=is_step, rounds=options.rounds))
            print(lines[-1], flush=True)
    if options.write:
        today = datetime.date.today().isoformat()
        title = f"# PyTorch models, {today}, {platform.machine()}, one thread\n\n"
        options.write.write_text(title + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

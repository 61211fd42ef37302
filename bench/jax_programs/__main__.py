"""Programs written for JAX, by JAX and by rlx in turn: first and later runs, and if they agree.

python -m bench.jax_programs [NAME ...]

Each runs in a process of its own, four times; the table has seconds and ratios, rlx : JAX.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
NAMES = sorted(
    p.stem for p in HERE.glob("*.py") if p.stem not in ("__init__", "__main__", "measure")
)
CHAOTIC = {"particle_filter": 0.05, "evolution": 0.05, "mixture": 2e-3}
"""Programs whose paths part by a rounding: how far their numbers may lie apart."""


def run(name: str, by_rlx: bool) -> dict[str, Any]:
    """Return what `measure` prints for a program."""
    command = [
        sys.executable,
        *(["-m", "rlx.jax"] if by_rlx else []),
        str(HERE / "measure.py"),
        name,
    ]
    root = str(HERE.parent.parent)
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def distance(found: Any, expected: Any) -> float:
    """The largest difference, against the largest number of each result."""
    pairs = [
        (np.asarray(a, float), np.asarray(b, float)) for a, b in zip(found, expected, strict=True)
    ]
    return max(float(np.max(np.abs(a - b)) / (np.max(np.abs(b)) + 1e-6)) for a, b in pairs)


def main() -> None:
    """Measure the programs that are named, by default all."""
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or NAMES
    print("| program | first: JAX s | rlx s | ratio | later: JAX ms | rlx ms | ratio | apart |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in names:
        theirs, ours = run(name, False), run(name, True)
        first = theirs["seconds"][0], ours["seconds"][0]
        later = [1e3 * min(each["seconds"][1:]) for each in (theirs, ours)]
        apart = distance(ours["numbers"], theirs["numbers"])
        note = "" if apart < CHAOTIC.get(name, 2e-3) else " **differs**"
        times = (*first, first[1] / first[0], *later, later[1] / later[0])
        columns = " | ".join(f"{each:.2f}" for each in times)
        print(f"| {name} | {columns} | {apart:.1e}{note} |", flush=True)


if __name__ == "__main__":
    main()

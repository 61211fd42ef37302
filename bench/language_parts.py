"""What a language model's speed is made of: `python -m bench.language_parts cold` or `blocks`.

`cold`: seconds from the start of a process to its first token after a prompt of 16, and the memory
that is resident then, rlx (its caches warm) beside llama.cpp. `blocks`: microseconds of the product
of each block type with a matrix of 4096 x 4096, in f32 and in eight bits, and how much of the
packed bytes is read in a second.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

from examples.chat import model_path
from rlx.errors import UnsupportedError
from rlx.gguf import encode
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile as compile_graph

_SIZE = 4096

_OURS = """
import rlx.language
model = rlx.language.load({path!r}, context=1536, threads={threads}, accuracy={accuracy!r})
model.feed(list(range(500, 516)))
"""
_THEIRS = """
import llama_cpp
model = llama_cpp.Llama({path!r}, n_ctx=1536, n_threads={threads}, n_threads_batch={threads},
                        verbose=False)
model.eval(list(range(500, 516)))
model.sample()
"""
_RESIDENT = """
lines = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("Vm"))
print(lines["VmRSS"].split()[0], lines["VmHWM"].split()[0])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("cold", "blocks"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if options.part == "cold":
        _cold(options.threads, options.rounds)
    else:
        _blocks(options.threads, options.rounds)


def _cold(threads: int, rounds: int) -> None:
    texts = {
        "rlx, exact": _OURS.format(path=str(model_path()), threads=threads, accuracy="exact"),
        "rlx, int8": _OURS.format(path=str(model_path()), threads=threads, accuracy="int8"),
        "llama.cpp": _THEIRS.format(path=str(model_path()), threads=threads),
    }
    best = dict.fromkeys(texts, float("inf"))
    memory: dict[str, list[int]] = {}
    for _ in range(rounds + 1):  # the first fills the caches
        for name, text in texts.items():
            started = time.perf_counter()
            command = [sys.executable, "-c", text + _RESIDENT]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            best[name] = min(best[name], time.perf_counter() - started)
            memory[name] = [int(number) // 1024 for number in shown.split()[-2:]]
    for name, seconds in best.items():
        now, most = memory[name]
        print(f"{name}: {seconds:.2f} s to the first token, {now} MB resident, {most} at most")


def _blocks(threads: int, rounds: int) -> None:
    weights = np.random.default_rng(0).standard_normal((_SIZE, _SIZE)).astype(np.float32)
    for scheme in BLOCK_TYPES:
        try:
            packed = encode(weights, scheme)
        except UnsupportedError:  # types that are only decoded
            continue
        for rows in (1, 128):
            exact, rounded = _product_seconds(packed, scheme, rows, threads, rounds)
            print(
                f"{scheme}, {rows} rows: f32 {exact * 1e6:.0f} us, eight bits {rounded * 1e6:.0f} "
                f"us ({exact / rounded:.2f}), {packed.nbytes / rounded / 1e9:.1f} GB/s of blocks",
                flush=True,
            )


def _product_seconds(
    packed: np.ndarray, scheme: str, rows: int, threads: int, rounds: int
) -> list[float]:
    """Return the least time of each product; they take turns."""
    x = np.random.default_rng(1).standard_normal((rows, _SIZE)).astype(np.float32)
    programs = []
    for name in ("dequant_matmul", "int8_dequant_matmul"):
        g = Graph(name)
        operands = g.input("x", x.shape), g.param("w", packed.shape, "u8")
        g.set_outputs([getattr(g, name)(*operands, scheme=scheme)])
        programs.append(compile_graph(g, params={"w": packed}, threads=threads))
    best = [float("inf")] * len(programs)
    for _ in range(rounds):
        for number, program in enumerate(programs):
            started = time.perf_counter()
            program.run({"x": x})
            best[number] = min(best[number], time.perf_counter() - started)
    return best


if __name__ == "__main__":
    main()

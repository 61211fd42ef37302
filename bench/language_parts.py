"""Measure the parts of a language model's speed: `python -m bench.language_parts cold` or `blocks`.

`cold`: seconds from the start of a process to its first token after a prompt of 16, and the memory
that is resident then, rlx (its caches warm) and llama.cpp. `blocks`: microseconds of the product
of each block type with a matrix of 4096 x 4096, in f32 and in eight bits, and ggml's where
`llama-cpp-python` is installed, how much of the packed bytes is read in a second, and how fast this
machine reads.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from bench.ggml_products import GgmlProduct, has_ggml
from examples.chat import model_path
from rlx.errors import UnsupportedError
from rlx.gguf import encode
from rlx.ir.block_types import BLOCK_TYPES, block_type
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile as compile_graph

_SIZE = 4096
_CACHED = 256 * 1000 * 1000
"""Bytes that are more than the caches hold."""
_NOT_IN_GGML = ("q8_k",)
"""ggml rounds activations to this type, and has no product of such weights."""

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
    with tempfile.TemporaryDirectory() as modules:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": modules}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled modules are a cache too
        run = functools.partial(
            subprocess.run, capture_output=True, text=True, check=True, env=environment
        )
        for _ in range(rounds + 1):  # the first fills the caches
            for name, text in texts.items():
                started = time.perf_counter()
                shown = run([sys.executable, "-c", text + _RESIDENT]).stdout
                best[name] = min(best[name], time.perf_counter() - started)
                memory[name] = [int(number) // 1024 for number in shown.split()[-2:]]
    for name, seconds in best.items():
        now, most = memory[name]
        print(f"{name}: {seconds:.2f} s to the first token, {now} MB resident, {most} at most")


def _blocks(threads: int, rounds: int) -> None:
    rate = _read_rate(threads, rounds)
    print(f"a sum of 256 MB reads {rate:.1f} GB/s, {threads} threads")
    weights = np.random.default_rng(0).standard_normal((_SIZE, _SIZE)).astype(np.float32)
    for scheme in BLOCK_TYPES:
        try:
            packed = encode(weights, scheme)
        except UnsupportedError:  # types that are only decoded
            continue
        for rows in (1, 128):
            seconds = _product_seconds(packed, scheme, rows, threads, rounds)
            shown = "".join(
                f", {name} {best * 1e6:.0f} us ({packed.nbytes / best / 1e9:.1f} GB/s)"
                for name, best in seconds.items()
            )
            if "ggml" in seconds:
                ratios = (seconds["ggml"] / best for best in seconds.values())
                shown += f", ggml over {' '.join(f'{ratio:.2f}' for ratio in ratios)}"
            print(f"{scheme}, {rows} rows{shown}", flush=True)


def _product_seconds(
    packed: np.ndarray, scheme: str, rows: int, threads: int, rounds: int
) -> dict[str, float]:
    """Return the least time of each product; they take turns, over copies that no cache holds."""
    x = np.random.default_rng(1).standard_normal((rows, _SIZE)).astype(np.float32)
    runs: dict[str, Callable[[], object]] = {}
    for name, op in (("f32", "dequant_matmul"), ("eight bits", "int8_dequant_matmul")):
        g = Graph(op)
        operands = g.input("x", x.shape), g.param("w", packed.shape, "u8")
        g.set_outputs([getattr(g, op)(*operands, scheme=scheme)])
        program = compile_graph(g, params={"w": packed}, threads=threads)
        runs[name] = functools.partial(program, x)
    theirs = None
    if has_ggml() and scheme not in _NOT_IN_GGML:
        theirs = GgmlProduct(block_type(scheme).number, packed, x, threads)
        runs["ggml"] = theirs.run
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            _forget()
            started = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - started)
    if theirs is not None:
        theirs.close()
    return best


@functools.cache
def _large() -> np.ndarray:
    return np.ones(_CACHED // 4, np.float32)


def _forget() -> None:
    """Read more than the caches hold, so that weights come from memory as in a whole model."""
    _large().sum()


def _read_rate(threads: int, rounds: int) -> float:
    """Return how many GB a second a sum of a large array reads."""
    run, size = sum_of_much(threads)
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return size / best / 1e9


def sum_of_much(threads: int) -> tuple[Callable[[], object], int]:
    """Return a sum of more bytes than caches hold, and their number."""
    g = Graph("read")
    g.set_outputs([g.reduce_sum(g.input("x", (_CACHED // 4,)), axes=(0,))])  # read in place
    return functools.partial(compile_graph(g, threads=threads), _large()), _CACHED


if __name__ == "__main__":
    main()

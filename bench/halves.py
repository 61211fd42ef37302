"""Products of bf16 and f16 against f32, and against PyTorch's.

    python -m bench.halves

Both operands change at every call. One thread; all take turns, and the least time of many counts.
On machines that multiply pairs of bf16 (`vdpbf16ps`) both do; on others ours are widened to f32.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

import rlx
from bench.quantization import Call, least
from rlx.ir.graph import Graph
from rlx.target import detect_target

SIZES = (256, 1024)
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
PEERS = (torch.float32, torch.bfloat16)
"""PyTorch's f16 takes 150 times as long as f32 without instructions for it, and is left out."""


def ours(a: NDArray[np.float32], b: NDArray[np.float32], dtype: str) -> Call:
    graph = Graph("product")
    x, y = graph.input("a", a.shape, dtype), graph.input("b", b.shape, dtype)
    graph.set_outputs([graph.matmul(x, y)])
    run = rlx.compile(graph, threads=1)
    given = {"a": a.astype(DTYPES[dtype]), "b": b.astype(DTYPES[dtype])}
    return lambda: run.run(given)


def torch_call(a: NDArray[np.float32], b: NDArray[np.float32], dtype: torch.dtype) -> Call:
    x, y = (torch.from_numpy(each).to(dtype) for each in (a, b))
    return lambda: x @ y


def main() -> None:
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    print(f"pairs of bf16 by instruction: {detect_target().dots_bf16}")
    print("| size | f32 | bf16 | f16 | PyTorch f32 | PyTorch bf16 | bf16 / f32 | bf16 / PyTorch |")
    print("|---|---|---|---|---|---|---|---|")
    for size in SIZES:
        a, b = (random.standard_normal((size, size)).astype(np.float32) for _ in range(2))
        calls = [ours(a, b, dtype) for dtype in DTYPES]
        calls += [torch_call(a, b, dtype) for dtype in PEERS]
        times = least(calls)
        shown = " | ".join(f"{seconds * 1e6:.0f} us" for seconds in times)
        ratios = f"{times[1] / times[0]:.2f} | {times[1] / times[4]:.2f}"
        print(f"| {size}^3 | {shown} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()

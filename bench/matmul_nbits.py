"""ONNX's `MatMulNBits` next to ONNX Runtime's, on one thread.

    python -m bench.matmul_nbits [--inner K] [--columns N] [--rows M ...]

Weights of four and eight bits in blocks, with and without zero points, at accuracy levels 0 (rows
are floats) and 4 (rows may be rounded to eight bits). Both run in one process, in turns; times are
of the processor, the best of all calls. The error is the largest difference by the largest number.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

import numpy as np

from bench.session_times import least_seconds
from bench.text import print_table

CASES = [
    (4, 32, False, 0), (4, 32, True, 0), (8, 32, False, 0),
    (4, 32, False, 4), (4, 32, True, 4), (4, 128, True, 4), (8, 32, False, 4), (8, 128, True, 4),
]  # fmt: skip
"""Bits, block, whether there are zero points, and level of accuracy."""

SECONDS = 0.5
"""Of calls, of both peers together."""


def product_model(
    inner: int, columns: int, bits: int, block: int, has_zeros: bool, level: int
) -> bytes:
    """Return a file of one product with random codes and scales."""
    import onnx
    from onnx import helper

    random, blocks = np.random.default_rng(0), -(-inner // block)
    weights = {
        "w": random.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8),
        "s": random.normal(size=columns * blocks).astype(np.float32),
    }
    if has_zeros:
        weights["z"] = random.integers(0, 256, columns * -(-blocks * bits // 8)).astype(np.uint8)
    node = helper.make_node(
        "MatMulNBits", ["x", *weights], ["y"], domain="com.microsoft",
        K=inner, N=columns, bits=bits, block_size=block, accuracy_level=level,
    )  # fmt: skip
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ["m", inner]), ("y", ["m", columns]))
    )
    params = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "product", [x], [y], params)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    written: bytes = model.SerializeToString()
    return written


def rows(inner: int, columns: int, heights: list[int]) -> Iterator[list[str]]:
    from bench.quantized_files import session_of

    for case in CASES:
        model, cells = product_model(inner, columns, *case), list[str]()
        theirs, error = session_of("onnxruntime", model), 0.0
        for height in heights:
            x = np.random.default_rng(1).normal(size=(height, inner)).astype(np.float32)
            sessions = {"rlx": session_of("llvm", model), "ort": theirs}
            found, expected = (session.run(None, {"x": x})[0] for session in sessions.values())
            error = max(error, float(np.abs(found - expected).max() / np.abs(expected).max()))
            best = least_seconds(sessions, {"x": x}, SECONDS, repeats=3)
            ours, ort = (f"{best[peer] * 1e6:.0f}" for peer in sessions)
            cells += [f"{ours} / {ort}", f"{best['rlx'] / best['ort']:.2f}"]
        bits, block, has_zeros, level = case
        described = [str(level), str(bits), str(block), "yes" if has_zeros else "no"]
        yield [*described, *cells, f"{error:.0e}"]


def main() -> None:
    parser = argparse.ArgumentParser(description="measure MatMulNBits next to ONNX Runtime")
    parser.add_argument("--inner", type=int, default=1024)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 16, 256])
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    of_rows = [cell for m in options.rows for cell in (f"{m} rows: rlx / ONNX Runtime us", "ratio")]
    columns = ["level", "bits", "block", "zero points", *of_rows, "error"]
    print_table(columns, rows(options.inner, options.columns, options.rows))


if __name__ == "__main__":
    main()

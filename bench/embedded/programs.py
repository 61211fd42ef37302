"""What small programs cost as C: instructions of a run, code, constants, arena and stack.

    python -m bench.embedded.programs

Instructions are counted by QEMU for user programs, in code of clang (Zig) at -O2; bytes of
microcontrollers are those of `arm-none-eabi-gcc -Os`. Nothing here depends on what else the
machine does.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from bench.embedded import control
from bench.embedded.__main__ import FLAGS, HERE
from bench.embedded.emulation import build
from bench.embedded.emulation import instructions as executed_in_a_run
from examples.microcontroller.run import X, classify, weights
from examples.minilm import EPS, HEADS, HIDDEN, INTERMEDIATE, LAYERS, pool
from rlx import blocks
from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact
from rlx.runtime.cross import find_compiler

EMULATED = {"x86-64": "x86_64", "aarch64": "aarch64", "riscv64": "riscv64"}
CORES = ("cortex-m3", "cortex-m4")
TOKENS = 16


def loss(params: Mapping[str, Any], x: Any, y: Any) -> Any:
    return rnp.mean((classify(params, x) - y) ** 2)


def training_step(params: Mapping[str, Any], x: Any, y: Any) -> Any:
    """Return the params after a step of descent, and the loss."""
    found, slopes = rlx.value_and_grad(loss)(params, x, y)
    return {name: p - 0.1 * slopes[name] for name, p in params.items()}, found


def trajectory(w: Any, xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        state = rnp.tanh(state @ w + x)
        return state, rnp.sum(state)

    return rnp.sum(rlx.scan(step, rnp.zeros(4, rnp.float32), xs)[1])


def solve(a: Any, b: Any) -> Any:
    return rnp.linalg.solve(a, b)


def attention(q: Any, k: Any, v: Any) -> Any:
    weights = rlx.nn.softmax(rnp.einsum("hqd,hkd->hqk", q, k) * 0.25)
    return rnp.einsum("hqk,hkd->hqd", weights, v)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


PROGRAMS: Mapping[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "mlp": (classify, (weights(), X), {"param_argnums": (0,), "weights": "embed"}),
    "training_step": (
        rlx.jit(training_step, donate_argnums=(0,)),
        (weights(), X, zeros(1, 4)),
        {"weights": "argument"},
    ),
    "scan_gradient": (rlx.jit(rlx.grad(trajectory)), (zeros(4, 4), zeros(32, 4)), {}),
    "solve_3x3": (rlx.jit(solve), (zeros(16, 3, 3), zeros(16, 3, 1)), {}),
    "attention": (rlx.jit(attention), tuple(zeros(2, 16, 16) for _ in range(3)), {}),
    "kalman_filter": (rlx.jit(control.kalman_filter), control.FILTER_INPUTS, {}),
    "finite_filter": (
        rlx.jit(control.kalman_filter),
        control.FILTER_INPUTS,
        {"precision": "finite"},
    ),
    "body_filter": (rlx.jit(control.body_filter), control.BODY_INPUTS, {}),
    "finite_body_filter": (
        rlx.jit(control.body_filter),
        control.BODY_INPUTS,
        {"precision": "finite"},
    ),
    "policy": (
        rlx.jit(control.policy),
        (control.policy_weights(), zeros(4)),
        {"param_argnums": (0,), "weights": "embed"},
    ),
}


def minilm() -> Graph:
    """Return MiniLM's six layers on the embeddings of 16 tokens, to a sentence of unit length."""
    g = Graph("minilm")
    x, mask = g.input("x", (1, TOKENS, HIDDEN), "f32"), g.constant(np.ones((1, TOKENS), np.float32))
    for layer in range(LAYERS):
        name = f"layer.{layer}"
        weights = blocks.EncoderLayerWeights.params(
            g, name, hidden=HIDDEN, intermediate=INTERMEDIATE
        )
        x = blocks.transformer_encoder_layer(x, weights, num_heads=HEADS, eps=EPS, name=name)
    g.set_outputs([pool(x, mask)])
    return g


LARGE: Mapping[str, Callable[[], Graph]] = {"minilm": minilm}
"""What no microcontroller holds; params are the caller's."""


def export(name: str, target: str, directory: Path) -> Artifact:
    if name in LARGE:
        return rlx.aot(
            LARGE[name](), directory, name=name, target=target, emit_only=True, math="none"
        )
    function, inputs, ways = PROGRAMS[name]
    return rlx.aot(
        function, directory, name=name, example_inputs=inputs, target=target, emit_only=True,
        math="none", **ways,
    )  # fmt: skip


def instructions(artifact: Artifact, target: str) -> int:
    """Return the executed instructions of one run."""
    machine = EMULATED[target]
    flags = ("-O2", *FLAGS, f"-I{artifact.directory}", f"-DGET_INFO={artifact.name}_get_info")
    sources = (HERE / "any.c", artifact.source)
    program = build(f"{machine}-linux-musl", sources, artifact.directory / "program", flags)
    return executed_in_a_run(machine, program)


def sections(artifact: Artifact, core: str) -> tuple[int, int, int]:
    """Return the bytes of code and of constants, and the deepest frames together."""
    compiler = find_compiler(core)
    unit = artifact.directory / "unit.o"
    flags = ["-std=c11", "-Os", *FLAGS[:-1], "-fstack-usage", "-c", str(artifact.source)]
    subprocess.run([*compiler.command, *compiler.flags, *flags, "-o", str(unit)], check=True)
    listed = subprocess.run(
        [compiler.command[0].replace("gcc", "nm"), "-S", str(unit)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.findall(r"^\w+ (\w+) ([tTrR]) (\S+)$", listed, re.MULTILINE)
    code = sum(int(size, 16) for size, kind, _ in found if kind in "tT")
    constants = sum(int(size, 16) for size, _, name in found if name == "constant_data")
    frames = re.findall(r"\t(\d+)\t", unit.with_suffix(".su").read_text())
    return code, constants, sum(sorted(map(int, frames))[-4:])


def rows(names: Sequence[str] = tuple(PROGRAMS)) -> None:
    for name in names:
        for target in (*EMULATED, *CORES):
            with tempfile.TemporaryDirectory() as place:
                artifact = export(name, target, Path(place))
                arena, most = artifact.arena_bytes, artifact.manifest["stack_bytes"]
                if target in CORES:
                    code, constants, stack = sections(artifact, target)
                    cost = f"- | {code} | {constants} | {arena} | {stack} (bound {most})"
                else:
                    cost = f"{instructions(artifact, target)} | - | - | {arena} | (bound {most})"
            print(f"| {name} | {target} | {cost} |", flush=True)


if __name__ == "__main__":
    print("| program | target | instructions | code | constants | arena | stack |")
    print("|---|---|---|---|---|---|---|")
    rows()

"""The small programs as C by tinygrad's CPU renderer: its kernels, called one after the other.

tinygrad has no solver, and no loop that is differentiated: the scan's steps are spelled out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.embedded.programs import TOKENS
from examples.microcontroller.run import weights
from examples.minilm import EPS, HEADS, HIDDEN, INTERMEDIATE, LAYERS

os.environ.update(DEV="CPU", CPU_LLVM="0", THREADS="0")
from tinygrad import Tensor
from tinygrad.engine.realize import compile_linear
from tinygrad.uop.ops import Ops


def tensor(*shape: int) -> Any:
    return Tensor(np.zeros(shape, np.float32)).contiguous().realize()


def params() -> dict[str, Any]:
    return {name: Tensor(array).contiguous().realize() for name, array in weights().items()}


def network(p: Mapping[str, Any], x: Any) -> Any:
    hidden = (x @ p["w1"] + p["b1"]).relu()
    return (hidden @ p["w2"] + p["b2"]).relu() @ p["w3"] + p["b3"]


def mlp() -> list[Any]:
    return [network(params(), tensor(1, 16))]


def training_step() -> list[Any]:
    p = params()
    loss = ((network(p, tensor(1, 16)) - tensor(1, 4)) ** 2).mean()
    slopes = loss.gradient(*p.values())
    return [loss, *(v - 0.1 * slope for v, slope in zip(p.values(), slopes, strict=True))]


def scan_gradient() -> list[Any]:
    w, xs, state, total = tensor(4, 4), tensor(32, 4), Tensor.zeros(1, 4), Tensor(0.0)
    for step in range(32):
        state = (state @ w + xs[step : step + 1]).tanh().contiguous()
        total = total + state.sum()
    return [total.gradient(w)[0]]


def attention() -> list[Any]:
    q, k, v = (tensor(2, 16, 16) for _ in range(3))
    return [((q @ k.transpose(1, 2)) * 0.25).softmax(-1) @ v]


def layer(x: Any) -> Any:
    """Return what a layer of MiniLM makes of `x`, `[16, 384]`."""

    def linear(x: Any, width: int) -> Any:
        return x @ tensor(x.shape[-1], width) + tensor(width)

    def heads(x: Any) -> Any:
        return linear(x, HIDDEN).reshape(TOKENS, HEADS, -1).transpose(0, 1)

    def norm(x: Any) -> Any:
        return x.layernorm(eps=EPS) * tensor(HIDDEN) + tensor(HIDDEN)

    q, k, v = heads(x), heads(x), heads(x)
    scores = (q @ k.transpose(1, 2)) * (HIDDEN // HEADS) ** -0.5
    mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(TOKENS, HIDDEN)
    x = norm(x + linear(mixed, HIDDEN))
    up = linear(x, INTERMEDIATE)
    return norm(x + linear(0.5 * up * (1 + (up * 0.5**0.5).erf()), HIDDEN))


def minilm() -> list[Any]:
    x = tensor(TOKENS, HIDDEN)
    for _ in range(LAYERS):
        x = layer(x)
    mean = x.mean(0)
    return [mean / (mean * mean).sum().sqrt().maximum(1e-12)]


FILLED = "(float)(i % 7) / 7 + (i % 4 == 0 ? 2 : 0)"
"""What `fill.h` writes to element `i`."""

PROGRAMS: Mapping[str, Callable[[], list[Any]]] = {
    f.__name__: f for f in (mlp, training_step, scan_gradient, attention, minilm)
}


def _for_any_compiler(text: str) -> str:
    """Return C with vectors as GCC spells them, too."""
    return re.sub(
        r"ext_vector_type\((\d+)\)", lambda found: f"vector_size({4 * int(found[1])})", text
    )


def _place(part: Any) -> tuple[Any, int]:
    """Return the buffer that holds an argument of a kernel, and its first byte there."""
    start = 0
    while part.op is not Ops.BUFFER:
        if part.op is Ops.SHRINK:
            start += part.src[1].arg
        elif part.op not in (Ops.BITCAST, Ops.RESHAPE):
            raise ValueError(f"{part.op} of a buffer is unknown")
        part = part.src[0]
    return part, start


def _floats(buffer: Any) -> int:
    """Return how many floats a buffer holds; those of temporaries count bytes."""
    return int(buffer.buffer.nbytes) // 4


def _kernels(calls: Sequence[Any]) -> tuple[dict[str, str], list[str]]:
    """Return the distinct kernels' sources by name, and the name that each call needs."""
    sources: dict[str, str] = {}
    names: list[str] = []
    for call in calls:
        program = call.src[0]
        if program.op is not Ops.PROGRAM:
            raise ValueError(f"{program.op} is no kernel")
        text = next(s.arg for s in program.src if s.op is Ops.SOURCE)
        found = re.search(r"void (\w+)\(", text)
        assert found is not None
        bare = text.replace(f"void {found[1]}(", "static void KERNEL(")
        name = next((n for n, t in sources.items() if t == bare), f"kernel_{len(sources)}")
        sources[name] = bare
        names.append(name)
    return sources, names


def _lines_of(sources: Mapping[str, str]) -> list[str]:
    """Return the kernels' lines, with each type defined once."""
    lines: dict[str, None] = {}
    body: list[str] = []
    for name, text in sources.items():
        for line in text.replace("KERNEL", name).splitlines():
            if line.startswith("typedef"):
                lines[line] = None
            else:
                body.append(line)
    return [*lines, *body]


def write(name: str, directory: Path) -> Path:
    """Write the kernels, their buffers, and a function that calls them in order.

    Buffers are visible outside of the file: a compiler leaves out what writes a static array that
    nothing reads.
    """
    results = PROGRAMS[name]()
    calls = compile_linear(results[0].schedule_linear(*results[1:])).src
    sources, kernels = _kernels(calls)
    buffers = {_place(r.uop.base)[0]: f"result_{i}" for i, r in enumerate(results)}
    lines: list[str] = []
    for kernel, call in zip(kernels, calls, strict=True):
        places = [_place(part) for part in call.src[1:]]
        for buffer, _ in places:
            buffers.setdefault(buffer, f"buffer_{len(buffers)}")
        given = ", ".join(f"{buffers[buffer]} + {start // 4}" for buffer, start in places)
        lines.append(f"  {kernel}({given});")
    sizes = {name: _floats(buffer) for buffer, name in buffers.items()}
    text = [
        *_lines_of(sources),
        *(f"_Alignas(64) float {name}[{size}];" for name, size in sizes.items()),
        "void fill_inputs(void) {",
        *(
            f"  for (int i = 0; i < {size}; ++i) {name}[i] = {FILLED};"
            for name, size in sizes.items()
        ),
        "}",
        "void run_once(void) {",
        *lines,
        "}",
    ]
    path = directory / "peer.c"
    path.write_text(_for_any_compiler("\n".join(text) + "\n"))
    return path

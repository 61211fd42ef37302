"""A random program as data: lines in NumPy's names, inputs, outputs and a transformation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import rlx
import rlx.nn
import rlx.numpy

Array = NDArray[Any]
Function = Callable[..., Any]

DTYPES: Mapping[str, Any] = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i32": np.int32, "i64": np.int64, "i8": np.int8, "i16": np.int16, "u8": np.uint8,
    "u32": np.uint32, "bool": np.bool_, "c64": np.complex64, "u16": np.uint16, "u64": np.uint64,
    "c128": np.complex128,
}  # fmt: skip
NAMES = {np.dtype(value): name for name, value in DTYPES.items()}
FLOATS = ("f32", "f64", "f16", "bf16")
_SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0)
TRANSFORMATIONS = ("none", "grad", "jvp", "vmap", "checkpoint", "hvp", "vmap_grad")


@dataclass(frozen=True, slots=True)
class Line:
    """`v{target} = ` a template whose `{0}`, `{1}` are the values `operands`."""

    target: int
    template: str
    operands: tuple[int, ...]

    def __str__(self) -> str:
        names = (f"v{number}" for number in self.operands)
        return f"v{self.target} = {self.template.format(*names)}"


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """Inputs `v0, v1, ...`, lines, outputs, and what is done to the function."""

    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    lines: tuple[Line, ...]
    outputs: tuple[int, ...]
    transformation: str = "none"
    seed: int = 0
    symbolic: bool = field(default=False)
    """Axes of the first input's leading extent are a symbol."""

    def source(self) -> str:
        """Return the function as Python, in terms of `np`, `nn` and `rlx`."""
        arguments = ", ".join(f"v{i}" for i in range(len(self.inputs)))
        outputs = ", ".join(f"v{i}" for i in self.outputs)
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def f({arguments}):\n{body}    return ({outputs},)\n"

    def script(self) -> str:
        """Return the whole program, to paste into a test."""
        inputs = "".join(f"# v{i}: {dtype}{list(s)}\n" for i, (dtype, s) in enumerate(self.inputs))
        head = f"# seed {self.seed}, {self.transformation}, symbolic={self.symbolic}\n"
        return f"{head}{inputs}{self.source()}"

    def arrays(self, seed: int = 0) -> list[Array]:
        """Return an array for each input: small numbers, with repeats, zeros of both signs."""
        random = np.random.default_rng([self.seed, seed])
        return [draw(random, dtype, shape) for dtype, shape in self.inputs]

    def function(self, library: SimpleNamespace) -> Function:
        """Return the transformed function over `library`: `of_rlx()` or `of_jax()`."""
        namespace: dict[str, Any] = {**vars(library), "DTYPES": DTYPES}
        exec(compile(self.source(), "<fuzz>", "exec"), namespace)
        return transformed(namespace["f"], self, library)


def draw(random: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return numbers of few bits, so that sums of them are exact in most dtypes."""
    kind = np.dtype(DTYPES[dtype])
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape)).astype(kind)
    if kind.kind == "c":
        parts = random.integers(-8, 9, (2, *shape)) / 8
        return np.asarray(parts[0] + 1j * parts[1], kind)
    if dtype in FLOATS:
        return _with_specials(random, np.asarray(random.integers(-16, 17, shape) / 8), kind)
    return np.asarray(random.integers(0 if dtype[0] == "u" else -9, 10, shape)).astype(kind)


def _with_specials(random: np.random.Generator, numbers: Array, kind: np.dtype[Any]) -> Array:
    """Return numbers of a dtype; in one of four arrays some are NaN, infinite or a zero."""
    if random.integers(4) == 0:
        chosen = random.random(numbers.shape) < 0.2
        numbers = np.where(chosen, random.choice(_SPECIALS, numbers.shape), numbers)
    return np.asarray(numbers).astype(kind)


def of_rlx() -> SimpleNamespace:
    return SimpleNamespace(np=rlx.numpy, nn=rlx.nn, rlx=rlx)


def transformed(f: Function, program: RandomProgram, library: SimpleNamespace) -> Function:
    """Return `f` under the program's transformation."""
    lib, np_ = library.rlx, library.np
    places = [i for i, (dtype, _) in enumerate(program.inputs) if dtype in FLOATS]

    def loss(*values: Any) -> Any:
        total = 0.0
        for y in f(*values):
            if np_.issubdtype(y.dtype, np.floating) if hasattr(np_, "issubdtype") else is_float(y):
                total = total + np_.sum(np_.tanh(y.astype(np.float64)))
        return total

    def gradients(*values: Any) -> Any:
        return lib.grad(loss, argnums=tuple(places))(*values)

    def directions(values: Any) -> list[Any]:
        return [values[i] * 0 + np.asarray(0.5, DTYPES[program.inputs[i][0]]) for i in places]

    def along(of: Function) -> Function:
        def call(*values: Any) -> Any:
            def chosen(*floats: Any) -> Any:
                filled = list(values)
                for place, value in zip(places, floats, strict=True):
                    filled[place] = value
                return of(*filled)

            return lib.jvp(chosen, tuple(values[i] for i in places), tuple(directions(values)))

        return call

    def batched(of: Function) -> Function:
        def call(*values: Any) -> Any:
            return lib.vmap(of)(*(np_.stack([x, x[..., ::-1] if x.ndim else x]) for x in values))

        return call

    made: dict[str, Function] = {
        "none": f,
        "grad": gradients,
        "jvp": along(f),
        "hvp": along(gradients),
        "vmap": batched(f),
        "vmap_grad": batched(gradients),
        "checkpoint": lambda *values: lib.grad(lib.checkpoint(loss), argnums=tuple(places))(
            *values
        ),
    }
    return made[program.transformation]


def is_float(y: Any) -> bool:
    return NAMES.get(np.dtype(y.dtype)) in FLOATS

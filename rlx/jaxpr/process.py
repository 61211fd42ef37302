"""rlx as the compiler of `jax.jit`: a program of JAX becomes a custom call of one of rlx.

    rlx.jax.install()
    ...                        # a program of JAX, unchanged
    print(rlx.jax.report())

Transformations, tracing, dispatch and arrays stay JAX's; XLA compiles a module of one call, whose
handler is C. What rlx has no rule for is compiled by XLA as before, and counted.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import pjit

import rlx.jaxpr.entry  # noqa: F401  registers rules
from rlx.errors import RlxError, UnsupportedError
from rlx.jaxpr.custom_rules import final
from rlx.jaxpr.internals import ClosedJaxpr, is_key, weakly_typed
from rlx.jaxpr.interpret import run
from rlx.jaxpr.types import dtype_of, shape_of_aval
from rlx.runtime.executable import Executable
from rlx.runtime.raw_calls import RawCall, Region, raw_call
from rlx.runtime.toolchain import find_toolchain
from rlx.transforms.jit import jit

_TARGET = "rlx_program"
_LEAST_EQUATIONS = 2
"""Programs of fewer are single operations outside of `jax.jit`: XLA compiles them sooner."""


@dataclass
class Report:
    """What was compiled since `install`."""

    compiled: int = 0
    """Programs that rlx compiled."""
    single: int = 0
    """Single operations, left to XLA."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Programs that were left to XLA, by the first line of the reason."""

    def __str__(self) -> str:
        lines = [
            f"{self.compiled} programs compiled by rlx, {self.reasons.total()} by XLA, and "
            f"{self.single} single operations"
        ]
        lines += [f"  {count}: {reason}" for reason, count in self.reasons.most_common()]
        return "\n".join(lines)


class _Region(ctypes.Structure):
    _fields_ = (("memory", ctypes.c_void_p), ("bytes", ctypes.c_int64))


class _EntryTable(ctypes.Structure):
    _fields_ = (
        ("run", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("input_count", ctypes.c_int64),
        ("output_count", ctypes.c_int64),
        ("inputs", ctypes.POINTER(_Region)),
        ("outputs", ctypes.POINTER(_Region)),
        ("lock", ctypes.c_void_p),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    """Compile and load the handler, and register it with XLA."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "xla_entry.so"
        source = Path(__file__).with_name("xla_entry.c")
        flags = ("-std=c11", "-O2", "-fPIC", "-shared", "-pthread", f"-I{jax.ffi.include_dir()}")
        find_toolchain().compile_library(source, path, flags)
        library = ctypes.CDLL(str(path))
    library.rlx_mutex_bytes.restype = ctypes.c_int64
    handler = jax.ffi.pycapsule(library.rlx_run)
    jax.ffi.register_ffi_target(_TARGET, handler, platform="cpu")
    return library


class _Door:
    """The state of `install`: what XLA would compile, and how it does."""

    def __init__(self) -> None:
        self.lower = pjit._resolve_and_lower
        self.report = Report()
        self._made: dict[int, tuple[ClosedJaxpr, ClosedJaxpr]] = {}
        """By the identity of a program, which is kept: itself, and what XLA compiles for it."""
        self._alive: list[Any] = []
        """Arenas and tables that compiled modules have the addresses of."""

    def resolve_and_lower(self, args: Any, **params: Any) -> Any:
        """Lower a call of rlx in place of the program, where rlx compiles it."""
        return self.lower(args, **{**params, "jaxpr": self._in_place_of(params["jaxpr"])})

    def _in_place_of(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        known = self._made.get(id(closed))
        if known is None:
            known = self._made[id(closed)] = closed, self._compiled(closed)
        return known[1]

    def _compiled(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        if _equations(closed) < _LEAST_EQUATIONS:
            self.report.single += 1
            return closed
        try:
            _require_plain(closed)
            made = self._call(closed)
        except Exception as error:  # XLA compiles it: the report says why
            reason = "" if isinstance(error, RlxError) else f"{type(error).__name__}: "
            self.report.reasons[reason + str(error).partition("\n")[0]] += 1
            return closed
        self.report.compiled += 1
        return made

    def _call(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        def flat(*arrays: Any) -> list[Any]:
            with final():
                return run(closed, arrays)

        shapes: list[Any] = [shape_of_aval(a) for a in closed.in_avals]
        pairs = zip(shapes, closed.in_avals, strict=True)
        examples = [np.zeros(shape, dtype_of(a)) for shape, a in pairs]
        executable = jit(flat).executable(*examples)
        if not isinstance(executable, Executable):
            raise UnsupportedError("no compiler runs here", remedy="install a C compiler")
        address = self._table(raw_call(executable))
        types = [jax.ShapeDtypeStruct(shape_of_aval(a), dtype_of(a)) for a in closed.out_avals]
        call = jax.ffi.ffi_call(_TARGET, types)

        def program(*arrays: Any) -> list[Any]:
            words = [jax.random.key_data(x) if is_key(x.aval) else x for x in arrays]
            found = call(*words, program=np.int64(address))
            return [weakly_typed(x, a) for x, a in zip(found, closed.out_avals, strict=True)]

        return jax.make_jaxpr(program)(*closed.in_avals)

    def _table(self, call: RawCall) -> int:
        """Return the address of what the handler reads."""
        lock = ctypes.create_string_buffer(_library().rlx_mutex_bytes())
        _library().rlx_mutex_init(lock)
        inputs, outputs = _regions(call.inputs), _regions(call.outputs)
        program = _EntryTable(
            call.run, call.arena, len(call.inputs), len(call.outputs), inputs, outputs,
            ctypes.addressof(lock),
        )  # fmt: skip
        self._alive += [call, lock, inputs, outputs, program]
        return ctypes.addressof(program)


def _regions(given: Sequence[Region]) -> Any:
    return (_Region * len(given))(*(_Region(r.address, r.bytes) for r in given))


def _equations(closed: ClosedJaxpr) -> int:
    """Return how many equations a program has, those of inner calls included."""
    count = 0
    for equation in closed.jaxpr.eqns:
        inner = equation.params.get("jaxpr") if equation.primitive.name in ("jit", "pjit") else None
        loops = equation.primitive.name in ("scan", "while", "cond")
        count += _equations(inner) if inner is not None else _LEAST_EQUATIONS if loops else 1
    return count


def _require_plain(closed: ClosedJaxpr) -> None:
    """Raise UnsupportedError for programs that only XLA runs."""
    if closed.effects:
        raise UnsupportedError(
            "the program has effects, whose order XLA keeps",
            remedy="leave it to XLA, or call rlx.from_jax for its pure part",
        )
    for aval in (*closed.in_avals, *closed.out_avals):
        if not all(isinstance(extent, int) for extent in aval.shape):
            raise UnsupportedError(
                "the program has symbolic extents", remedy="call rlx.from_jax with rlx.Dim"
            )
        if aval.dtype == jax.dtypes.float0:
            raise UnsupportedError(
                "the program has arrays of float0", remedy="take the integer arguments out of it"
            )


_installed: list[_Door] = []


def install() -> None:
    """Let rlx compile what `jax.jit` compiles in this process from now on."""
    if _installed:
        return
    _library()
    _installed.append(_Door())
    pjit._resolve_and_lower = _installed[0].resolve_and_lower
    jax.clear_caches()


def uninstall() -> None:
    """Let XLA compile again."""
    if _installed:
        pjit._resolve_and_lower = _installed.pop().lower
        jax.clear_caches()


def report() -> Report:
    """Return what was compiled by rlx and by XLA since `install`."""
    return _installed[0].report if _installed else Report()

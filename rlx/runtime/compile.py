"""From a graph to something that runs it.

What compiles is imported where it is used: a program from the cache needs none of it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from rlx.dataclass import dataclass
from rlx.errors import GraphError, UnsupportedError
from rlx.garbage import collecting_rarely
from rlx.ir.graph import Graph
from rlx.locks import unforkable
from rlx.progress import showing, stage
from rlx.runtime import tiers
from rlx.runtime.arena import Arena
from rlx.runtime.backend import Backend, NativeModule
from rlx.runtime.blas import find_blas, has_lapack, takes_products
from rlx.runtime.c_backend import CBackend
from rlx.runtime.executable import Executable
from rlx.runtime.image import Image
from rlx.runtime.interface import Interface, NamedGraph, Origin
from rlx.runtime.io_binding import IoBindingExecutable
from rlx.runtime.llvm_backend import CachedLlvmBackend, has_llvm, require_llvm
from rlx.runtime.llvm_library import load_early
from rlx.runtime.lower import (
    add_io_binding,
    add_setup_at,
    add_step,
    add_threads,
    c_passes,
    lower_for,
)
from rlx.runtime.programs import Lapack, ProgramCache, RecalledProgram, copy_later
from rlx.runtime.residents import Residents
from rlx.runtime.signature import named_params
from rlx.runtime.thread_count import thread_count
from rlx.runtime.tuned import with_schedules
from rlx.target import Target, detect_target

if TYPE_CHECKING:
    from rlx.codegen.lower import Program
    from rlx.ir.lowering import Schedule
    from rlx.passes.precision.policy import Precision
    from rlx.runtime.nan_check import CheckedExecutable
    from rlx.runtime.reference import ReferenceExecutable


@overload
def compile(
    graph: Graph,
    *,
    backend: Literal["auto", "c", "llvm"] = ...,
    params: Mapping[str, Any] | None = ...,
    threads: int | None = ...,
    nan_check: bool = ...,
    precision: Precision = ...,
    blas: str = ...,
    schedules: Mapping[str, Schedule | str] | None = ...,
    without: Iterable[str] = ...,
    wait: bool | None = ...,
) -> Executable: ...


@overload
def compile(
    graph: Graph,
    *,
    backend: Literal["reference"],
    params: Mapping[str, Any] | None = ...,
    threads: int | None = ...,
    nan_check: bool = ...,
    precision: Precision = ...,
    blas: str = ...,
    schedules: Mapping[str, Schedule | str] | None = ...,
    without: Iterable[str] = ...,
    wait: bool | None = ...,
) -> ReferenceExecutable: ...


@overload
def compile(
    graph: Graph,
    *,
    backend: str = ...,
    params: Mapping[str, Any] | None = ...,
    threads: int | None = ...,
    nan_check: bool = ...,
    precision: Precision = ...,
    blas: str = ...,
    schedules: Mapping[str, Schedule | str] | None = ...,
    without: Iterable[str] = ...,
    wait: bool | None = ...,
) -> Executable | ReferenceExecutable: ...


def compile(
    graph: Graph,
    *,
    backend: str = "auto",
    params: Mapping[str, Any] | None = None,
    threads: int | None = None,
    nan_check: bool = False,
    precision: Precision = None,
    blas: str = "auto",
    schedules: Mapping[str, Schedule | str] | None = None,
    without: Iterable[str] = (),
    wait: bool | None = None,
) -> Executable | ReferenceExecutable:
    """Compile `graph` for this machine.

    `backend` is "c", "llvm", "reference", or "auto": LLVM, which compiles in a fraction of the
    C compiler's time what runs as fast (`bench/results`), or C where llvmlite is missing.
    `threads` defaults to `RLX_NUM_THREADS`, else the cores of this process; results have the
    same bits for any number. Params may be set later, by `set_param`. `nan_check` runs kernel
    by kernel on one thread, and stops at the first that makes a NaN or infinity. `precision`
    computes products in 16 bits: "bf16", "f16", or an `rlx.MixedPrecision` that says more;
    "strict" computes convolutions as their formula says, without Winograd's transforms; "finite"
    promises that no value is NaN or infinite, so that products with known zeros are left out.
    `blas` is "auto": a BLAS library, where there is one, computes what it is faster at, which are
    large linear systems and decompositions; "system", the path of a library or its name, such as
    "openblas": it computes large products (`passes.layout.use_blas`), too; or "none".
    `schedules` says how contractions are computed (`rlx.Schedules`), by the name of a node or as
    `rlx inspect --why` names them; by default those are used that `rlx.tune` found on this machine.
    `without` names passes to leave out, such as "fuse" (`rlx inspect --stage passes` lists them).
    Large programs answer from a first tier of machine code while the second one is made, unless
    `wait` is True (or `RLX_WAIT=1`); False is for programs of any size. Both have the same bits.
    `RLX_KERNEL_DISPATCH=common` replaces ops with a kernel of their own by their second bodies.
    """
    if not isinstance(graph, Graph):
        raise GraphError(
            f"rlx.compile takes a Graph, not {type(graph).__name__}",
            remedy="use rlx.jit for a function",
        )
    params = {**graph.param_values, **named_params(params)}
    target = with_schedules(detect_target(), schedules)
    if without:
        from rlx.passes.optional_passes import without_passes  # no pass is needed to run programs

        target = without_passes(target, without)
    if precision is not None:
        graph, target = _at_precision(graph, target, precision)
    graph = _as_dispatched(graph)
    if backend == "reference":
        return interpreted(graph, params, nan_check=nan_check)
    chosen = choose_backend(backend, blas)
    cache = ProgramCache.here(chosen, target, asked_library(blas, target), blas, wait=wait)
    count = thread_count(threads, target)
    if nan_check:
        return stepping(graph, params, cache)
    found = _obtain(graph, cache, count)
    kind = IoBindingExecutable if found.image.regions else Executable
    return kind(found.origin, found.program, found.native, image=found.image, params=params)


def compile_together(
    graphs: Sequence[Graph | NamedGraph],
    *,
    backend: str = "auto",
    params: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> tuple[Executable, ...]:
    """Compile graphs whose params and state are the same, over one arena.

    What `setup` lays out, and what runs replace in place, is in memory once; runs take turns.
    A graph that has a name is built only if no program is kept under it.
    """
    target = replace(with_schedules(detect_target(), None), shares_panels=True)
    chosen = choose_backend(backend)
    lapack = Lapack(partial(has_lapack, target))
    cache, count = ProgramCache.here(chosen, target, lapack), thread_count(threads, target)
    made = [_obtain(graph, cache, count) for graph in graphs]
    images = [each.image for each in made]
    alike = images[0].residents is not None and len({image.residents for image in images}) == 1
    if not alike or any(image.regions for image in images):
        raise UnsupportedError(
            "the programs differ in the layout of their params or state, so they cannot share them",
            remedy="compile them one by one",
        )
    room = Arena(max(image.arena_bytes for image in images))
    passing = frozenset[str].intersection(*(frozenset(image.passing) for image in images))
    last = max(image.resident_bytes for image in images)
    # What one run reads has to stay for all.
    residents = Residents(room, passing, shared=True, temporaries=last)
    programs = [
        Executable(each.origin, each.program, each.native, image=each.image, residents=residents)
        for each in made
    ]
    for name, value in named_params(params).items():
        programs[0].set_param(name, value)
    return tuple(programs)


def _at_precision(graph: Graph, target: Target, precision: Precision) -> tuple[Graph, Target]:
    from rlx.passes.precision.mixed_precision import at_precision
    from rlx.passes.precision.policy import target_at

    return at_precision(graph, precision), target_at(target, precision)


def _as_dispatched(graph: Graph) -> Graph:
    """Return `graph` with the bodies that `RLX_KERNEL_DISPATCH` asks for."""
    if not (os.environ.get("RLX_KERNEL_DISPATCH") or os.environ.get("KERNEL_DISPATCH")):
        return graph
    from rlx.passes.lowering.kernel_dispatch import KernelDispatch, use_common_bodies

    return use_common_bodies(KernelDispatch.from_environment())(graph)


def interpreted(
    graph: Graph, params: Mapping[str, Any] | None, *, nan_check: bool
) -> ReferenceExecutable:
    """Return what runs `graph` with NumPy."""
    from rlx.runtime.reference import ReferenceExecutable

    if nan_check:
        raise UnsupportedError(
            "the reference interpreter has no kernels to check", remedy="use 'c' or 'llvm'"
        )
    return ReferenceExecutable(graph, params)


def asked_library(blas: str, target: Target) -> Lapack:
    """Return whether the library that `blas` names has LAPACK; a missing one is an error."""
    if blas == "none":
        return Lapack(lambda: False)
    if takes_products(blas):
        find_blas(target, blas)
    return Lapack(partial(has_lapack, target, blas))


def stepping(
    graph: Graph, params: Mapping[str, Any] | None, cache: ProgramCache
) -> CheckedExecutable:
    """Return what runs kernel by kernel and looks at every result."""
    from rlx.runtime.nan_check import CheckedExecutable

    program = add_step(_lower_from(cache, graph))
    native = cache.backend.load(program.module, cache.target)
    return CheckedExecutable(graph, program, native, params=params)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program, and what it was compiled from."""

    origin: Origin
    image: Image
    program: Program | RecalledProgram
    native: NativeModule


def _obtain(graph: Graph | NamedGraph, cache: ProgramCache, threads: int) -> Compiled:
    """Return the program of a graph: from the cache, or compiled."""
    key = None if os.environ.get("RLX_DUMP") else cache.key(graph, threads)
    with unforkable(), collecting_rarely(), showing(graph.name):
        return recall(graph, cache, key, threads) or make(graph, cache, key, threads)


def recall(
    graph: Graph | NamedGraph, cache: ProgramCache, key: str | None, threads: int
) -> Compiled | None:
    """Return the program that an earlier `make` left in the cache; None if there is none."""
    if key is None:
        return None
    known = graph if isinstance(graph, Graph) else None
    again = graph.build if isinstance(graph, NamedGraph) else copy_later(graph)
    program = RecalledProgram(again, lambda same: prepare(same, cache, threads)[1])
    kept = cache.load(key, known, lambda: program.module)
    if kept is None:
        return None
    return Compiled(_origin(graph, kept.interface), kept.image, program, kept.native)


def _origin(graph: Graph | NamedGraph, interface: Interface | None = None) -> Origin:
    if isinstance(graph, Graph):
        return Origin.of(graph)
    build = functools.cache(graph.build)
    return Origin(interface or Interface.of(build()), build, graph.takes_all_extents)


def make(graph: Graph | NamedGraph, cache: ProgramCache, key: str | None, threads: int) -> Compiled:
    """Compile a program, and keep it under `key`."""
    origin = _origin(graph)
    if isinstance(graph, Graph):
        if cache.backend.name == "llvm" and thread_count(None, cache.target) > 1:
            load_early(cache.target.vector_bytes)
        image, program = prepare(graph, cache, threads)
        stage("machine code")
        native = tiers.load(
            cache.backend, program.module, cache.target, wait=cache.wait,
            run_time=lambda: _run_time(program),
        )  # fmt: skip
        if key is not None:
            tiers.with_last_tier(native, lambda last: cache.keep(key, graph, image, last))
        return Compiled(origin, image, program, native)
    own = _obtain(origin.graph, cache, threads)
    if key is not None and cache.key(origin.graph, threads) is not None:
        interface = origin.interface
        tiers.with_last_tier(own.native, lambda last: cache.keep(key, interface, own.image, last))
    return Compiled(origin, own.image, own.program, own.native)


def _run_time(program: Program) -> int | None:
    """Return about how many nanoseconds a call takes; None where nothing bounds them."""
    from rlx.codegen.estimate import run_nanoseconds  # of a large program only

    return run_nanoseconds(program.schedule.thunks)


def prepare(graph: Graph, cache: ProgramCache, threads: int) -> tuple[Image, Program]:
    """Return a program with the entries that its executable calls; `threads` at most."""
    from rlx.codegen.io_binding import bindable_regions
    from rlx.codegen.setup_at import passing_regions
    from rlx.codegen.threaded import has_shared_work

    program = _lower_from(cache, graph)
    regions = bindable_regions(program.plan)
    if threads > 1 and not has_shared_work(program.schedule, program.kernels):
        threads = 1
    if regions:
        program = add_io_binding(program, regions)
    if threads > 1:
        program = add_threads(program, regions)
    image = Image.of(program, regions=regions, threads=threads)
    large = passing_regions(program.plan, image.passing)
    if large:
        program = add_setup_at(program, large)
    return replace(image, setup_takes_places=bool(large)), program


def _lower_from(cache: ProgramCache, graph: Graph) -> Program:
    """Lower for the backend of `cache`."""
    passes = c_passes(cache.target) if cache.backend.name == "c" else ()
    return lower_for(graph, cache.target, lapack=cache.lapack, blas=cache.blas, passes=passes)


def choose_backend(name: str, blas: str = "auto") -> Backend:
    """Return the backend called `name`; "auto" needs no C compiler. `blas` is what it calls."""
    if name == "llvm":
        require_llvm()
    c, llvm = CBackend(blas=blas), CachedLlvmBackend(blas=blas)
    if name == "auto":
        return llvm if has_llvm() else c
    backends: dict[str, Backend] = {"c": c, "llvm": llvm}
    if name not in backends:
        raise UnsupportedError(
            f"unknown backend {name!r}", remedy="use 'auto', 'c', 'llvm' or 'reference'"
        )
    return backends[name]

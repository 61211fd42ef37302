"""Lowering for a backend: passes for our kernels, and the entries that executables call."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.codegen.regions import Region
from rlx.errors import blamed
from rlx.ir.graph import Graph
from rlx.ir.source_lines import calling_source
from rlx.locks import importing
from rlx.runtime.blas import takes_products
from rlx.runtime.signature import require_carried
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.codegen.loops.passes.pipeline import KernelPass
    from rlx.codegen.lower import Program


_HALF_WIDE = 32
"""Bytes of the vectors to which C compilers are held where loops move doubles."""


def c_passes(target: Target) -> tuple[KernelPass, ...]:
    """Return what kernels in C go through: one file has the same bits from every compiler."""
    from rlx.codegen.c.byte_loops import explicit_byte_loops
    from rlx.codegen.c.vector_width import explicit_vectors
    from rlx.codegen.loops.passes.order_sums import order_sums

    wide = target.vector_bytes > _HALF_WIDE
    spelled = (explicit_vectors(target.vector_bytes),) if wide else ()
    rounding = (
        (explicit_byte_loops(target.vector_bytes),) if target.vector_bytes >= _HALF_WIDE else ()
    )
    return (order_sums(target.vector_bytes), *rounding, *spelled)


def lower_for(
    graph: Graph,
    target: Target,
    *,
    lapack: Callable[[], bool] | None = None,
    blas: str = "none",
    passes: Sequence[KernelPass] = (),
) -> Program:
    """Run the passes for our kernels and lower what they leave; dump it where `RLX_DUMP` says.

    `blas` is the library that large products are left to, unless that is "none" or "auto". Kernels
    go through `passes` last.
    """
    with importing():
        from rlx.codegen.lower import lower_graph
        from rlx.passes.decisions import Decisions
        from rlx.passes.layout.given_schedules import require_used
        from rlx.passes.pipeline import pipeline
        from rlx.passes.stage_files import dump_directory

    with blamed(f"compiling {graph.name!r}", calling_source()):
        require_carried(graph)
    large = takes_products(blas)
    decisions = Decisions() if target.requires_schedules else None
    rewriting = pipeline(
        claimed_ops(), target, lapack=lapack, takes_products=large, decisions=decisions
    )
    done = rewriting.run(graph)
    if decisions is not None:
        require_used((node for node, _ in decisions.chosen), target)
    program = lower_graph(done, target, passes)
    directory = dump_directory()
    if directory is not None:
        with importing():
            from rlx.runtime.dump import dump_program  # prints C, which LLVM does without

        dump_program(program, directory)
    return program


def add_threads(program: Program, regions: Sequence[Region] = ()) -> Program:
    """Add the entries for running on several threads."""
    from rlx.codegen.threaded import with_threads

    symbols = [symbol.name for symbol in program.graph.symbols]
    module = with_threads(program.module, program.schedule, program.kernels, symbols, regions)
    return replace(program, module=module)


def add_io_binding(program: Program, regions: Sequence[Region]) -> Program:
    """Add the entry that takes large inputs and outputs where the caller has them."""
    from rlx.codegen.io_binding import with_io_binding

    module = with_io_binding(program.module, program.schedule, program.kernels, regions)
    return replace(program, module=module)


def add_setup_at(program: Program, params: Sequence[Region]) -> Program:
    """Add the entry of `setup` that takes large params where the caller has them."""
    from rlx.codegen.setup_at import with_setup_at

    module = with_setup_at(program.module, program.schedule, program.kernels, params)
    return replace(program, module=module)


def add_step(program: Program) -> Program:
    """Add the entry that runs one thunk."""
    from rlx.codegen.stepping import with_step

    symbols = [symbol.name for symbol in program.graph.symbols]
    module = with_step(program.module, program.schedule, program.kernels, symbols)
    return replace(program, module=module)


def claimed_ops() -> Container[str]:
    """Return the names of the ops that have kernels, maybe for a lowering record only."""
    return _ClaimedOps()


class _ClaimedOps(Container[str]):
    """Looks an op up when it is asked for, which declares it."""

    def __init__(self) -> None:
        with importing():
            from rlx.codegen.kernels.build import has_kernel, has_lowered_kernel
            from rlx.ir.op import OPS

        self._ops, self._have = OPS, (has_kernel, has_lowered_kernel)

    def __contains__(self, name: object) -> bool:
        definition = self._ops[str(name)]
        return any(has(definition) for has in self._have)

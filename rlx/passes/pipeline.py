"""The pipeline: which passes run, in which order, and what each of them did.

    program = pipeline(claimed={"softmax", "layer_norm"}).run(graph)

With `RLX_DUMP=dir` the graph is written there after every pass: `04_fold_constants.rlx`, and
an empty `05_simplify (unchanged).rlx` where nothing happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from pathlib import Path

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph
from rlx.ir.printer import format_graph
from rlx.ir.verify import Checked, verify
from rlx.passes.communication.bundle_collectives import bundle_collectives
from rlx.passes.communication.fold_collectives import fold_collectives
from rlx.passes.communication.hoist_collectives import hoist_collectives
from rlx.passes.communication.start_collectives import start_collectives
from rlx.passes.decisions import Decisions
from rlx.passes.fusion.fuse import fuse
from rlx.passes.fusion.propagate_reshapes import propagate_reshapes
from rlx.passes.fusion.recompute_formulas import recompute_formulas
from rlx.passes.fusion.reroll_reductions import reroll_reductions
from rlx.passes.fusion.row_regions import row_regions
from rlx.passes.fusion.scalar_regions import scalar_regions
from rlx.passes.fusion.share_bodies import share_bodies
from rlx.passes.fusion.split_reductions import split_reductions
from rlx.passes.layout.attach_codebooks import attach_codebooks
from rlx.passes.layout.channels_last import channels_last
from rlx.passes.layout.choices import no_layout
from rlx.passes.layout.pack_blocks import pack_blocks
from rlx.passes.layout.pack_operands import pack_operands
from rlx.passes.layout.pack_scaled_weights import pack_scaled_weights
from rlx.passes.layout.share_factors import share_factors
from rlx.passes.layout.sort_in_lanes import sort_in_lanes
from rlx.passes.layout.split_sorts import split_sorts
from rlx.passes.layout.tile_attention import tile_attention
from rlx.passes.layout.tile_convolutions import tile_convolutions
from rlx.passes.layout.tile_ragged import sort_rows, tile_ragged
from rlx.passes.layout.use_blas import use_blas
from rlx.passes.layout.use_lapack import use_lapack
from rlx.passes.loops.absorb_transposes import absorb_transposes
from rlx.passes.loops.fuse_loop_bodies import fuse_loop_bodies
from rlx.passes.loops.hoist_updates import hoist_updates
from rlx.passes.loops.invariant_code_motion import loop_invariant_code_motion
from rlx.passes.loops.segment_scans import segment_scans
from rlx.passes.loops.simplify_loops import simplify_loops
from rlx.passes.lowering.byte_tables import byte_tables
from rlx.passes.lowering.exact_products import exact_products
from rlx.passes.lowering.legalize import legalize
from rlx.passes.lowering.scaled_products import scaled_products
from rlx.passes.memory.bufferize import bufferize_loops
from rlx.passes.memory.copy_outputs import copy_outputs
from rlx.passes.memory.order_updates import order_updates
from rlx.passes.rewrite import GraphPass, Rewritten, unchanged
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.decompose import decompose
from rlx.passes.rewrites.fold_batch_norm import fold_batch_norm
from rlx.passes.rewrites.fold_constants import fold_constants
from rlx.passes.rewrites.inline_calls import inline_calls
from rlx.passes.rewrites.simplify import simplify
from rlx.passes.rewrites.split_phases import split_phases
from rlx.passes.rewrites.update_in_place import update_in_place
from rlx.passes.stage_files import dump_directory, write_stage
from rlx.progress import stage
from rlx.target import Target


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did."""

    name: str
    seconds: float
    verify_seconds: float
    nodes_before: int
    nodes_after: int
    changed: bool

    def __str__(self) -> str:
        effect = f"{self.nodes_before} -> {self.nodes_after}" if self.changed else "(unchanged)"
        return f"{self.name:<24}{effect:>18}{self.seconds * 1e3:10.2f} ms"


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """The records of one run, in order; `str(report)` is a table."""

    passes: tuple[PassRecord, ...]

    def __str__(self) -> str:
        return "\n".join(str(record) for record in self.passes)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order; the graph is verified before the first and after each."""

    passes: tuple[GraphPass, ...]

    def without(self, *names: str) -> Pipeline:
        """Return a pipeline that leaves out all passes of these names."""
        return Pipeline(tuple(each for each in self.passes if each.name not in names))

    def run(self, graph: Graph) -> Graph:
        """Return the graph after all passes."""
        return self.run_with_report(graph)[0].graph

    def run_with_report(
        self, graph: Graph, *, dump: Path | None = None
    ) -> tuple[Rewritten, PipelineReport]:
        """Return graph and value map, and what each pass did; `dump` overrides `RLX_DUMP`."""
        directory = dump or dump_directory()
        checked = Checked()
        verify(graph, checked=checked)
        _dump(directory, 0, "input", graph, changed=True)
        done = unchanged(graph)
        records: list[PassRecord] = []
        for number, graph_pass in enumerate(self.passes, start=1):
            before = done.graph
            stage(f"pass {graph_pass.name}", number, len(self.passes))
            started = time.perf_counter()
            done = done.then(graph_pass)
            finished = time.perf_counter()
            changed = done.graph is not before
            if changed:
                verify(done.graph, after=graph_pass.name, checked=checked)
            records.append(
                PassRecord(
                    name=graph_pass.name,
                    seconds=finished - started,
                    verify_seconds=time.perf_counter() - finished,
                    nodes_before=len(before.nodes),
                    nodes_after=len(done.graph.nodes),
                    changed=changed,
                )
            )
            _dump(directory, number, graph_pass.name, done.graph, changed=changed)
        return done, PipelineReport(tuple(records))


def pipeline(
    claimed: Container[str],
    target: Target,
    *,
    lapack: Callable[[], bool] | None = None,
    takes_products: bool = False,
    decisions: Decisions | None = None,
) -> Pipeline:
    """Return the passes from any valid graph to one that can be planned and lowered.

    `claimed` names the ops that the backend has kernels for although they have a formula;
    `lapack`, where calling a BLAS library is allowed, says whether there is one; with
    `takes_products` it computes large products, too. What is decided on the way is entered into
    `decisions`.
    """
    choose = no_layout if decisions is None else decisions.choose
    miss = None if decisions is None else decisions.missed.append
    passes = Pipeline(
        (
            inline_calls,  # first: the rules of calls may be many times what runs
            dead_code,
            fold_batch_norm,  # before formulas are spelled out: it is a node still
            reroll_reductions,  # early: what follows takes time for every node
            segment_scans,  # before formulas: it makes `checkpoint`s, which have one
            pack_scaled_weights,  # before formulas, which decode them
            sort_rows(target),  # before formulas: it is one
            decompose(claimed),  # first: formulas bring their own constants and casts
            tile_attention(target, choose),
            decompose(claimed, but=("attention",)),  # attention that no tile fits
            legalize,
            hoist_updates,  # before they are added to arrays
            update_in_place,  # before loops are made kernels: sums are passes over whole arrays
            hoist_updates,  # after sums are updates, and before loops are made kernels
            scaled_products,  # before products of integers are
            exact_products(target),  # before simplify, which makes one cast of two
            fold_constants,  # before simplify, whose rules look for constants
            simplify,
            common_subexpressions,  # after simplify, which gives equal values one spelling
            byte_tables(target),  # after equal roundings are one value, before they are fused
            fold_collectives,  # before the others are ordered and joined
            hoist_collectives,  # before they are joined: what is there early leaves early
            bundle_collectives,  # after common subexpressions: equal ones are exchanged once
            simplify_loops,  # after common subexpressions: equal operands are one value
            absorb_transposes,  # after loops are tidy, while their bodies may change
            dead_code,  # transposes that only loops read
            scalar_regions(target, sparse_only=True),  # before loops are kernels
            fuse_loop_bodies,  # before what suits large bodies
            scalar_regions(target),  # before what suits larger arrays, as libraries and panels
            *([use_lapack(lapack, choose)] if lapack else []),  # after formulas, which hold systems
            share_factors,  # after the library has taken its systems
            split_sorts,  # after formulas, which sort
            sort_in_lanes(target),  # after long sorts are split: short ones are left
            split_phases,  # after formulas, which transpose convolutions
            channels_last(target),  # before tiles, which suit the layout
            tile_convolutions(target, choose),  # before products are packed: some become one
            *([use_blas(choose)] if takes_products else []),  # before what packs the others
            pack_operands(
                target, choose
            ),  # after simplify, which brings transposes to the products
            tile_ragged(target),  # as pack_operands
            attach_codebooks,
            pack_blocks(target, choose),
            loop_invariant_code_motion,  # packing of what is the same at every step
            propagate_reshapes,  # after packing, which reshapes the products' rows
            common_subexpressions,  # products of one operand reshape it alike
            start_collectives,  # before fusion, which keeps their order among what it groups
            recompute_formulas(),  # before fusion, which would store what is read of them
            fuse(seen=miss),  # after all that changes nodes; bodies are final
            row_regions(target),  # after fusion: what products and others compute stays with them
            share_bodies,  # after fusion: bodies are final
            split_reductions,  # after bodies are shared: a part folds what they hold
            dead_code,  # indices that a fused check of an index makes itself
            order_updates,  # after fusion, which decides what computes an update
            bufferize_loops,  # after fusion: bodies are final but for copies and places
            copy_outputs,  # last: simplify would drop the copies, fusion move them
        )
    )
    return passes.without(*target.disabled_passes)


def _dump(directory: Path | None, number: int, name: str, graph: Graph, *, changed: bool) -> None:
    if directory is None:
        return
    stem = f"{number:02}_{name.replace('-', '_')}"
    if changed:
        write_stage(directory, f"{stem}.rlx", format_graph(graph, full=False) + "\n")
    else:
        write_stage(directory, f"{stem} (unchanged).rlx", "")

"""`rlx inspect`: read any stage between graph and machine code."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from rlx.cli.arrays import random_inputs, random_params, read_inputs
from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.cli.sources import LoadedGraph, load_program, read_params
from rlx.passes.optional_passes import without_passes
from rlx.report.data import report_data
from rlx.report.page import write_page
from rlx.report.stages import Stages
from rlx.report.why import format_why
from rlx.runtime.compile import choose_backend
from rlx.runtime.cross import machine_of
from rlx.runtime.profile import Profile, profile
from rlx.runtime.signature import Array, Signature
from rlx.target import detect_target

_SEED = 0


def execute(arguments: Namespace) -> int:
    inputs = read_inputs(arguments.input)
    program = load_program(
        arguments.source, shapes=arguments.shape, examples=inputs, is_jax=arguments.jax
    )
    machine = machine_of(arguments.target) if arguments.target else detect_target()
    with progress(f"lowering {program.graph.name}"):
        stages = Stages.of(
            program.graph,
            without_passes(machine, arguments.without),
            arguments.precision,
            libraries=not _is_edited(arguments) and not arguments.target,
            target_name=arguments.target or "",
        )
    if arguments.lines:
        show(stages.c_with_lines(), end="")
        return 0
    if arguments.why:
        show(format_why(stages))
    elif arguments.stage or not arguments.html:
        stage = arguments.stage or "schedule"
        with progress(f"printing {stage}"):
            text = stages.text(stage, backend=arguments.backend, kernel=arguments.kernel)
        show(text)
    if arguments.html:
        times = _measure(arguments, program, stages, inputs) if arguments.measure else None
        with progress("writing the report"):
            write_page(report_data(stages, times), arguments.html)
        show(f"written to {arguments.html}")
    return 0


def _is_edited(arguments: Namespace) -> bool:
    """True if C is printed, for people to edit and run."""
    return bool(arguments.lines or arguments.stage == "c")


def _measure(
    arguments: Namespace, program: LoadedGraph, stages: Stages, inputs: Mapping[str, Array]
) -> Profile:
    """Time every thunk, on what is given and random numbers for the rest."""
    signature = Signature.of(program.graph)
    params = {
        **random_params(signature, _SEED), **program.params, **read_params(arguments.params)
    }  # fmt: skip
    backend = choose_backend(arguments.backend)
    with progress(f"compiling and timing {program.graph.name}"):
        return profile(
            program.graph,
            stages.program_for(backend),
            {**random_inputs(signature, arguments.extent, _SEED), **inputs},
            backend=backend,
            target=stages.target,
            params=params,
        )

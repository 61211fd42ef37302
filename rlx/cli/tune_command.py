"""`rlx tune`: measure schedules of a program's contractions, and keep those that are faster."""

from __future__ import annotations

from argparse import Namespace

from rlx.cli.arrays import read_inputs
from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.cli.sources import load_program
from rlx.runtime.tune import tune


def execute(arguments: Namespace) -> int:
    inputs = read_inputs(arguments.input)
    program = load_program(
        arguments.source, shapes=arguments.shape, examples=inputs, is_jax=arguments.jax
    )
    with progress(f"measuring schedules of {program.graph.name}"):
        found = tune(
            program.graph,
            seconds=arguments.seconds,
            backend=arguments.backend,
            threads=arguments.threads,
            keep=arguments.output is None,
        )
    show(str(found))
    if arguments.output is not None:
        found.schedules.save(arguments.output)
        show(f"written to {arguments.output}")
    return 0

"""`rlx inspect`: read any stage between graph and machine code."""

from __future__ import annotations

from argparse import Namespace

from rlx.cli.arrays import read_inputs
from rlx.cli.progress import progress
from rlx.cli.sources import load_program
from rlx.report.stages import Stages
from rlx.target import detect_target


def execute(arguments: Namespace) -> int:
    program = load_program(
        arguments.source, shapes=arguments.shape, examples=read_inputs(arguments.input)
    )
    with progress(f"lowering {program.graph.name}"):
        stages = Stages.of(program.graph, detect_target())
    if arguments.stage or not arguments.html:
        stage = arguments.stage or "schedule"
        with progress(f"printing {stage}"):
            text = stages.text(stage, backend=arguments.backend, kernel=arguments.kernel)
        print(text)
    return 0

"""`rlx compile`: write C, header, libraries and weights for programs without Python."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from rlx.cli.arguments import WeightsChoice
from rlx.cli.arrays import read_inputs
from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.cli.sources import load_program, read_params
from rlx.codegen.aot.names import distinct_identifiers
from rlx.ir.graph import Graph
from rlx.ir.inspect import bytes_text
from rlx.runtime.aot import Artifact, aot


def execute(arguments: Namespace) -> int:
    inputs = read_inputs(arguments.input)
    program = load_program(
        arguments.source, shapes=arguments.shape, examples=inputs, is_jax=arguments.jax
    )
    params = {**program.params, **read_params(arguments.params)}
    with progress(f"compiling {program.graph.name}"):
        artifact = aot(
            program.graph,
            arguments.output,
            name=arguments.name,
            params=params,
            example_inputs=inputs,
            threads=None if arguments.threads == "none" else arguments.threads,
            target=arguments.target,
            blas=arguments.blas,
            weights=_weights(arguments.weights, program.graph, params),
            cc=arguments.cc,
            backend=arguments.backend,
            output_names=distinct_identifiers(program.graph.output_names),
            precision=arguments.precision,
            math=arguments.math,
            vectors=arguments.vectors,
            optimize=arguments.optimize,
            line_directives=arguments.lines,
            emit_only=arguments.emit_only,
            without=arguments.without,
        )
    show(_summary(artifact))
    return 0


def _weights(
    choices: Sequence[WeightsChoice], graph: Graph, params: Mapping[str, Any]
) -> dict[str, str] | None:
    """Return how each param is kept; None leaves the choice to `aot`. The last choice counts."""
    if not choices:
        return None
    declared = [str(value.node.name) for value in graph.params]
    names = [*declared, *graph.donations, *params]
    kept = dict.fromkeys(names, "file" if params else "argument")
    for choice in choices:
        kept.update(dict.fromkeys(names if choice.name is None else [choice.name], choice.keep))
    return kept


def _summary(artifact: Artifact) -> str:
    """Return the files by name and size, and what a caller provides."""
    lines = [f"{artifact.name} in {artifact.directory}"]
    for path in sorted(artifact.directory.iterdir()):
        if path.is_file():
            lines.append(f"  {path.name:<24}{bytes_text(path.stat().st_size):>10}")
    lines.append(f"the caller provides an arena of {bytes_text(artifact.arena_bytes)}")
    return "\n".join(lines)

"""`rlx run`: run a program on arrays from files."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlx.cli.arrays import random_inputs, random_params, read_inputs, write_outputs
from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.cli.sources import load_program, read_params
from rlx.errors import InputError, UnsupportedError
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable
from rlx.runtime.reference import ReferenceExecutable
from rlx.runtime.signature import Array, Signature

_SHOWN_LINES = 12


def execute(arguments: Namespace) -> int:
    inputs = read_inputs(arguments.input)
    program = load_program(
        arguments.source, shapes=arguments.shape, examples=inputs, is_jax=arguments.jax
    )
    params = {**program.params, **read_params(arguments.params)}
    signature = Signature.of(program.graph)
    if arguments.random is not None:
        inputs = {**random_inputs(signature, arguments.extent, arguments.random), **inputs}
        params = {**random_params(signature, arguments.random), **params}
    _require(signature, inputs, params)
    with progress(f"compiling {program.graph.name}"):
        executable: Executable | ReferenceExecutable = compile(
            program.graph,
            backend=arguments.backend,
            params=params,
            threads=1 if arguments.code and not arguments.threads else arguments.threads,
            nan_check=arguments.nan_check,
            precision=arguments.precision,
            without=arguments.without,
        )
    if arguments.code is not None:
        executable = _rebuilt(executable, arguments.code)
    with progress(f"running {program.graph.name}"):
        outputs = executable.run(inputs)
    _show(program.graph, outputs)
    if arguments.output is not None:
        write_outputs(arguments.output, outputs)
        show(f"written to {arguments.output}")
    return 0


def _rebuilt(executable: Executable | ReferenceExecutable, code: Path) -> Executable:
    if not isinstance(executable, Executable):
        raise UnsupportedError("the reference interpreter runs no C", remedy="use --backend c")
    return executable.rebuild(code)


def _require(signature: Signature, inputs: dict[str, Array], params: dict[str, Array]) -> None:
    """Raise an error that names the missing options."""
    for option, wanted, given in (
        ("input", signature.inputs, inputs),
        ("params", signature.params, params),
    ):
        missing = [f"{a.name}: {a.type}" for a in wanted if a.name not in given]
        if missing:
            how = "--input NAME=FILE.npy" if option == "input" else "--params FILE.npz"
            raise InputError(
                f"{signature.name}: {option} not given: {', '.join(missing)}",
                remedy=f"pass {how}, or fill what is missing with --random SEED",
            )


def _show(graph: Graph, outputs: Sequence[Array]) -> None:
    """Print outputs by name; where they have labels, these for class numbers and of columns."""
    names = graph.output_names or tuple(map(str, range(len(outputs))))
    labels = graph.output_labels or ((),) * len(outputs)
    for name, own, output in zip(names, labels, outputs, strict=True):
        are_numbers = bool(own) and output.dtype.kind in "iu"
        extents = ", ".join(map(str, output.shape))
        columns = f", of {', '.join(map(str, own))}" if own and not are_numbers else ""
        show(f"output {name}: {output.dtype}[{extents}]{columns}")
        with np.printoptions(precision=6, threshold=60, edgeitems=3, linewidth=96):
            lines = str(np.array(own, object)[output] if are_numbers else output).splitlines()
        shown = lines if len(lines) <= _SHOWN_LINES else [*lines[:_SHOWN_LINES], "..."]
        show("\n".join(f"  {line}" for line in shown))

"""Exported C under valgrind: nothing reads what was never written, or outside of the arena."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import rlx
from bench.embedded.programs import PROGRAMS as SMALL
from examples import kalman, pendulum, sequence, splat
from examples.digits import BATCH, load_data
from examples.train_in_c.export import NETWORKS
from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact, aot
from tests.aot.building import needs_compiler, require, run, untimed
from tests.aot.programs import encoder_layer, lookup, mlp, params_of, scaled_rows, training_step

pytestmark = [needs_compiler, pytest.mark.slow]
HARNESS = Path(__file__).with_name("memcheck.c")
FLAGS = ("-std=gnu11", "-O1", "-g1", "-w", "-ffp-contract=off", "-fopenmp-simd")
GRAPHS = (mlp, training_step, scaled_rows, lookup, encoder_layer)


@pytest.fixture(autouse=True)
def _sources_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the examples from compiling what they export: that is done here, with the harness."""
    monkeypatch.setattr(rlx, "aot", functools.partial(rlx.aot, emit_only=True))


def check(artifact: Artifact, *, flags: tuple[str, ...] = ()) -> None:
    """Build the artifact with the harness, and run it under valgrind.

    Where a value came from takes valgrind as long again: it is asked only of what failed.
    """
    if not Path("/usr/include/valgrind/memcheck.h").exists():
        pytest.skip("valgrind's header is not installed")
    program = artifact.directory / "memcheck"
    weights: list[Path] = [] if artifact.weights is None else [artifact.weights]
    sample = artifact.directory / "untimed.c"
    sample.write_text(untimed(artifact.sample.read_text()))
    chosen = [f'-DSAMPLE="{sample}"', f"-DGET_INFO={artifact.name}_get_info"]
    chosen += ["-DHAS_WEIGHTS"] if weights else []
    sources = [HARNESS, artifact.source]
    command = (require("gcc"), *FLAGS, *flags, *chosen, "-I", str(artifact.directory))
    run(*command, *sources, "-lm", "-o", program)
    watched = [require("valgrind"), "-q", "--error-exitcode=9", "--leak-check=no"]
    try:
        run(*watched, program, *weights)
    except AssertionError:
        run(*watched, "--track-origins=yes", program, *weights)
        raise


@pytest.mark.parametrize("weights", ["embed", "file", "argument"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_small_graphs(graph: Callable[[], Graph], weights: str, tmp_path: Path) -> None:
    made = graph()
    check(aot(made, tmp_path, params=params_of(made), weights=weights, emit_only=True))


@pytest.mark.costly(4)
@pytest.mark.parametrize("target", ["portable", "x86-64-v3", "wasm32"])
@pytest.mark.parametrize("name", SMALL)
def test_published_programs(name: str, target: str, tmp_path: Path) -> None:
    function, inputs, ways = SMALL[name]
    rounds = np.random.default_rng(0)
    given = rlx.tree_map(lambda x: rounds.standard_normal(x.shape).astype(x.dtype), inputs)
    artifact = rlx.aot(
        function, tmp_path, name=name, example_inputs=given, target=target, emit_only=True, **ways
    )
    check(artifact, flags=("-march=x86-64-v3",) if target == "x86-64-v3" else ())


def pendulum_step(directory: Path) -> Artifact:
    angles = pendulum.record()[0]
    shots, windows = pendulum.first_shots(angles, 250), angles.reshape(2, -1, 250)[:, :2]
    shots = shots._replace(starts=pendulum.State(*(x[:2] for x in shots.starts)))
    return pendulum.export(directory, shots, windows, 10)


def kalman_filter(directory: Path) -> Artifact:
    return kalman.export(directory, kalman.free(kalman.TRUTH), kalman.sail(steps=20)[1])


def recurrent_network(directory: Path) -> Artifact:
    return sequence.export(directory, sequence.first_params(16), sequence.load_data()[0])


def splats_step(directory: Path) -> Artifact:
    """Of a small picture, with tiles that are not full: valgrind takes long for each pixel."""
    with mock.patch.dict(splat.SIZE, width=40, height=24):
        return splat.export(directory, splats=16, emit_only=True)


def digits_step(name: str, directory: Path) -> Artifact:
    network, data = NETWORKS[name](), load_data()
    given = (*network.arrays.values(), *network.state, data.train_x[:BATCH], data.train_y[:BATCH])
    return rlx.aot(network.step, directory, name="digits_step", example_inputs=given)


EXAMPLES: dict[str, Callable[[Path], Artifact]] = {
    "pendulum": pendulum_step,
    "kalman": kalman_filter,
    "recurrent": recurrent_network,
    "splats": splats_step,
    **{f"digits_{name}": functools.partial(digits_step, name) for name in NETWORKS},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_that_run_in_c(name: str, tmp_path: Path) -> None:
    check(EXAMPLES[name](tmp_path))


def test_harness_finds_what_it_is_for(tmp_path: Path) -> None:
    """A kernel that reads a value before it is written is reported."""
    made = mlp()
    artifact = aot(made, tmp_path, params=params_of(made), weights="embed", emit_only=True)
    text = artifact.source.read_text()
    start = text.index("static void run_phase(")
    first = text.index(");\n", text.index("(", text.index("{", start))) + 3
    body = text.index("{", start) + 2
    artifact.source.write_text(text[:body] + text[first:])
    with pytest.raises(AssertionError, match="uninitialised"):
        check(artifact)

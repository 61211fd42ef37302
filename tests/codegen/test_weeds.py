"""Generated code holds nothing idle: no loop that never runs, nothing that is always one value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.aot.emit import ArtifactText, emit_artifact
from rlx.ir.graph import Graph
from rlx.runtime.aot import aot
from tests.aot.programs import encoder_layer, lookup, mlp, params_of, scaled_rows, training_step
from tests.codegen.uses import share
from tests.codegen.weeds import repeated_constants, weeds_of

TARGETS = ("portable", "x86-64-v3", "cortex-m4")
FEW_POINTS = ("dft_3x4x1_c64", "dft_3x1x1_c64", "dft_of_prime_3x5x1_c64")
"""The third is Rader's transform of five points by one of four."""
PROGRAMS = (mlp, training_step, scaled_rows, lookup, encoder_layer)


def recorded_weeds(stride: int) -> list[str]:
    """Return the weeds of recorded kernels.

    What is empty is an argument all the same, and so are the angles of no rotation and the roots
    of unity of a transform of up to four points, which are 1, -1, i and -i.
    """
    found: list[str] = []
    for case in (use.case for use in share(stride, 0)):
        refs = (*case.thunk.operands, *case.thunk.results)
        if all(ref.type.elements != 0 for ref in refs) and "none_rotated" not in case.name:
            weeds = (
                weed for weed in weeds_of(case.kernel) if not _is_of_few_points(case.name, weed)
            )
            found += (f"{case.name}: {weed}" for weed in weeds)
    return found


def _is_of_few_points(name: str, weed: str) -> bool:
    return name in FEW_POINTS and weed == "argument roots is never touched"


def test_a_sample_of_recorded_kernels_holds_nothing_idle() -> None:
    assert recorded_weeds(61) == []


@pytest.mark.slow
def test_recorded_kernels_hold_nothing_idle() -> None:
    assert recorded_weeds(5) == []


def export(program: Any, directory: Path, monkeypatch: pytest.MonkeyPatch, **ways: Any) -> None:
    """Export a program, and assert that neither its kernels nor its constants hold a weed."""
    texts: list[ArtifactText] = []

    def noting(*args: Any) -> ArtifactText:
        texts.append(emit_artifact(*args))
        return texts[-1]

    monkeypatch.setattr("rlx.runtime.aot.emit_artifact", noting)
    artifact = aot(program, directory, name="program", weights="embed", emit_only=True, **ways)
    assert repeated_constants(artifact.source.read_text()) == []
    assert [f"{k.name}: {w}" for k in texts[0].kernels.kernels for w in weeds_of(k)] == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", PROGRAMS)
def test_exported_programs_hold_nothing_idle(
    make: Callable[[], Graph], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make()
    export(graph, tmp_path, monkeypatch, params=params_of(graph), target=target)


def pieces(x: Any, w: Any) -> Any:
    """Short axes, loops, constants that are one number, and equal ones."""
    carry, rows = rlx.scan(lambda c, u: (rnp.tanh(c @ w + u), c), rnp.zeros(4, rnp.float32), x)
    shares = rlx.nn.softmax(x[:, :3]) @ rnp.full((3, 4), 1 / 12, rnp.float32)
    table = rnp.asarray(np.arange(8, dtype=np.float32))
    turned = rnp.concatenate([rows * table[:4], shares * table[4:]])
    return rnp.mean(turned * rnp.ones(4, rnp.float32), axis=0) + carry * table[:4]


@pytest.mark.parametrize("target", TARGETS)
def test_exported_functions_and_their_gradients_hold_nothing_idle(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = np.ones((6, 4), np.float32), np.eye(4, dtype=np.float32)
    gradient = rlx.grad(lambda x, w: rnp.sum(pieces(x, w)), argnums=(0, 1))
    for function in (pieces, gradient):
        export(rlx.jit(function), tmp_path, monkeypatch, example_inputs=inputs, target=target)

"""Controllers of a cart and pole in C: here, and on Cortex-M cores within their memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from examples.control import balance, closed_loop, swing_up
from examples.control.cart import LIMIT
from tests.aot.building import needs_compiler

CORES = pytest.mark.parametrize("core", [None, "cortex-m4", "cortex-m7"])


def require_tools(core: str | None) -> None:
    for tool in () if core is None else ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@needs_compiler
@pytest.mark.slow
@CORES
def test_the_pole_is_swung_up_and_stays_upright(tmp_path: Path, core: str | None) -> None:
    require_tools(core)
    facts = closed_loop.run(swing_up.export(tmp_path, core), tmp_path, core)
    states = closed_loop.trajectory(facts)
    assert abs(states[0, 1]) > 3.1
    assert abs(states[100:, 1]).max() < 0.1
    assert abs(states[:, 2]).max() <= LIMIT
    assert facts["arena"][0] < 6_500
    if core is not None:
        assert max(facts["instructions"]) < 300_000
        assert max(facts["stack"]) < 512
        assert facts["code"][0] < 8_300


@pytest.fixture(scope="module")
def weights() -> balance.Weights:
    return balance.train()


@needs_compiler
@pytest.mark.slow
@CORES
def test_a_trained_policy_swings_the_pole_up_and_quadratic_programs_balance_it(
    tmp_path: Path, core: str | None, weights: balance.Weights
) -> None:
    require_tools(core)
    facts = closed_loop.run(balance.export(tmp_path, core, weights), tmp_path, core)
    states = closed_loop.trajectory(facts)
    assert abs(states[0, 1]) > 3.1
    assert abs(closed_loop.from_upright(states[120:, 1])).max() < 0.1
    assert abs(states[:, 0]).max() <= balance.TRACK
    assert abs(states[:, 2]).max() <= LIMIT * 1.001
    assert facts["arena"][0] < 3_000
    if core is not None:
        assert max(facts["instructions"]) < 300_000
        assert max(facts["stack"]) < 1_000
        assert facts["code"][0] < 7_400


def test_a_plan_is_that_of_the_linear_dynamics() -> None:
    """Without a bound that is active, the first force is the gain of the infinite horizon."""
    plan = balance.linear_plan()
    near = np.array([0.02, 0.0, 0.01, 0.0])
    force, status = balance.balance(plan, near)
    assert int(status) == 0
    free = np.linalg.solve(plan.curvature, -plan.slope @ near)
    assert abs(float(force) - free[0]) < 1e-5 * LIMIT
    held, _ = balance.balance(plan, np.array([0.0, 0.0, 0.5, 0.0]))
    assert abs(float(held) - LIMIT) < 1e-3

"""Programs compute the same through rlx, JAX and their bounds; the table says how fast."""

from __future__ import annotations

import pytest

from bench.peers import load_program_peer
from bench.program_report import describe_program, program_table
from bench.rounds import Row, Timing, disagreement
from bench.routine import Routine
from bench.worker import Made
from bench.workloads import PROGRAMS

QUICK = (
    *("loops.scan_3x3.gradient", "loops.recurrence.gradient", "loops.recurrence.forward"),
    *("loops.recurrence_of_sines.gradient", "loops.lorenz.gradient"),
    *("loops.hmc_regression", "loops.hmc_network", "loops.mass_matrix", "loops.population"),
)


def named(name: str) -> Routine:
    return next(program for program in PROGRAMS if program.name == name)


def row(name: str, **seconds: float) -> Row:
    return Row(named(name), {peer: Timing(Made([]), [s, 2 * s]) for peer, s in seconds.items()})


@pytest.mark.parametrize("peer", ["rlx_c", "bound", "jax"])
@pytest.mark.parametrize("name", QUICK)
def test_peers_and_bounds_agree(name: str, peer: str) -> None:
    if peer == "jax":
        pytest.importorskip("jax")
    program, results = named(name), []
    for each in ("rlx", peer):
        session = load_program_peer(each)(program, 1)
        results.append([array.copy() for array in session.to_arrays(session.call())])
    assert disagreement(results[0], results[1], program.tolerance) is None


def test_every_derivative_names_its_value() -> None:
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names)
    for program in PROGRAMS:
        if program.name.endswith(("gradient", "forward")):
            assert program.value in names, program.name


def test_ratios_are_to_the_bound_to_jax_and_to_the_value() -> None:
    value = row("loops.scan_3x3.value", rlx=2.0, rlx_c=3.0, bound=1.0, jax=8.0)
    slope = row("loops.scan_3x3.gradient", rlx=6.0, bound=4.0)
    said = describe_program(slope, [value, slope])
    assert "LLVM / bound 1.50" in said
    assert "derivative / value, LLVM 3.00" in said
    assert "C / bound" not in said
    assert "LLVM / jax 0.25" in describe_program(value, [value])
    assert "| loops.scan_3x3.gradient |" in program_table([value, slope])

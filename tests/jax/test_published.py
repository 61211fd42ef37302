"""The programs of `bench/jax_programs`, run unchanged: rlx prints JAX's numbers."""

from __future__ import annotations

import pytest

from bench.jax_programs.__main__ import CHAOTIC, NAMES, distance, run


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_program_gives_jaxs_numbers(name: str) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    theirs, ours = run(name, by_rlx=False), run(name, by_rlx=True)
    assert distance(ours["numbers"], theirs["numbers"]) < CHAOTIC.get(name, 2e-3)

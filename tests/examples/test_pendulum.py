"""The pendulum's parameters are found from its noisy recording."""

from __future__ import annotations

import pytest

from examples import pendulum


def test_the_fit_finds_the_true_parameters() -> None:
    found, loss = pendulum.fit(pendulum.recording(), iterations=200)
    assert found["damping"] == pytest.approx(pendulum.TRUTH["damping"], abs=0.02)
    assert found["stiffness"] == pytest.approx(pendulum.TRUTH["stiffness"], abs=0.05)
    assert loss < 0.05**2 * 1.2

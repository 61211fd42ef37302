"""The example of Gaussian splatting: the world is what it is, and fitting finds it."""

from __future__ import annotations

import numpy as np
import pytest

from examples import splat
from examples.splat_world import SKY, TARGET, orbit, photograph


def test_a_photograph_shows_the_sky_above_and_the_world_below() -> None:
    image = photograph(orbit(1)[0] * [1, 0.2, 1], 24, 18, 45.0, samples=1)
    np.testing.assert_allclose(image[0], np.broadcast_to(SKY, (24, 3)))
    assert not np.allclose(image[11, 12], SKY)
    assert np.linalg.norm(TARGET) < 1


@pytest.mark.slow
def test_fitting_finds_the_views_held_out() -> None:
    train, test = splat.take_photographs()
    found = splat.fit(train, test, splats=1000, steps=600, quiet=True)
    assert np.mean(found.psnr) > 22.0
    assert np.mean(found.losses[-50:]) < 0.35 * np.mean(found.losses[:50])

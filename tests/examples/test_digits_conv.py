"""A convolutional network learns the digits to 99 %."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.packaged import is_installed

if not is_installed("sklearn"):
    pytest.skip("the digits ship in the extra `demo`", allow_module_level=True)

from examples.digits import load_data
from examples.digits_conv import save_picture, shifted, train


@pytest.mark.slow
def test_the_network_reads_99_of_100_test_digits(tmp_path: Path) -> None:
    data, seen = load_data(), []
    trained = train(data, "llvm", lambda epoch, _: seen.append(epoch))
    assert trained.accuracy >= 0.99
    assert seen == list(range(len(trained.losses)))
    if is_installed("matplotlib"):
        save_picture(tmp_path / "wrong.png", data, trained)
        assert (tmp_path / "wrong.png").stat().st_size > 1000


def test_images_are_moved_within_their_frame() -> None:
    images = load_data().test_x[:3]
    moved = {shifted(images, np.random.default_rng(seed)).tobytes() for seed in range(40)}
    assert len(moved) == 9
    assert images.tobytes() in moved

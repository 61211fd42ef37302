"""Collections of garbage while programs are compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from rlx.garbage import _RARELY, collecting_rarely


@pytest.fixture(autouse=True)
def threshold() -> Iterator[int]:
    before = gc.get_threshold()
    gc.set_threshold(500, 10, 10)
    yield 500
    gc.set_threshold(*before)


def test_the_threshold_is_raised_in_the_outermost_block_alone() -> None:
    with collecting_rarely():
        with collecting_rarely():
            assert gc.get_threshold() == (_RARELY, 10, 10)
        assert gc.get_threshold() == (_RARELY, 10, 10)
    assert gc.get_threshold() == (500, 10, 10)


def test_it_is_restored_after_an_error() -> None:
    with pytest.raises(KeyError), collecting_rarely():
        raise KeyError
    assert gc.get_threshold()[0] == 500


@pytest.mark.parametrize("given", [0, 300_000])
def test_a_collector_that_is_off_or_collects_as_rarely_is_left_alone(given: int) -> None:
    gc.set_threshold(given)
    with collecting_rarely():
        assert gc.get_threshold()[0] == given
    assert gc.get_threshold()[0] == given


def test_a_threshold_that_is_set_meanwhile_stays() -> None:
    with collecting_rarely():
        gc.set_threshold(900)
    assert gc.get_threshold()[0] == 900

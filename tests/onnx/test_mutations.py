"""Damaged files are refused with typed errors, quickly."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("onnx")

import rlx.onnx
from rlx.errors import InternalError, RlxError
from tests.onnx.models import flattening, perceptron, recurrent


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a file that is cut, or in which some bytes are changed, missing or added."""
    data = bytearray(content[: rng.randrange(len(content))] if rng.random() < 0.2 else content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(data) or 1)
        kind = rng.randrange(3)
        if kind == 0 and data:
            data[place] = rng.randrange(256)
        elif kind == 1:
            del data[place : place + 1]
        else:
            data.insert(place, rng.randrange(256))
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_models_are_refused_with_typed_errors(seed: int) -> None:
    rng = random.Random(seed)
    whole = [made.SerializeToString() for made in (perceptron(), flattening(), recurrent())]
    refused = 0
    for _ in range(1000):
        try:
            rlx.onnx.load(mutated(rng.choice(whole), rng), dims={"batch": 2, "n": 2})
        except InternalError:
            raise
        except RlxError:
            refused += 1
    assert refused > 500

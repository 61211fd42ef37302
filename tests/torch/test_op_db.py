"""PyTorch's operator database: results and gradients of its samples are those of eager mode."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's testing modules import it")

from tests.torch import exceptions, op_db  # noqa: E402  import torch


@pytest.mark.parametrize("name", list(op_db.operators()))
@pytest.mark.filterwarnings("ignore")
def test_samples_have_the_results_and_gradients_of_eager_mode(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Compiled code, two samples of one dtype per operator in a draw; all are eight of each."""
    torch.set_num_threads(1)
    draw = request.config.getoption("--draw")
    dtypes = op_db.dtypes_of(name)
    if draw > 1:
        dtypes = dtypes[len(name) % max(len(dtypes), 1) :][:1]
    for dtype in dtypes:
        found = op_db.outcomes(name, dtype, 2 if draw > 1 else 8, "llvm")
        assert not [each for each in found if each.kind in ("wrong", "fault")]
        refused = [each for each in found if each.kind in ("refused", "torch")]
        assert not refused or exceptions.reason(name)


def test_exceptions_are_of_operators_that_there_are() -> None:
    assert not sorted(exceptions.named() - op_db.operators().keys())

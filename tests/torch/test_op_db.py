"""PyTorch's operator database: results and gradients of its samples are those of eager mode."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's testing modules import it")

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

from rlx.torch.program import Options  # noqa: E402
from tests.torch import exceptions, samples  # noqa: E402

DTYPES = ("float32", "float64", "int64", "bool")


def name_of(info: Any) -> str:
    variant = info.variant_test_name
    return f"{info.name}.{variant}" if variant else str(info.name)


@functools.cache
def operators() -> dict[str, Any]:
    return {name_of(info): info for info in op_db}


def dtypes_of(name: str) -> list[str]:
    supported = operators()[name].supported_dtypes("cpu")
    return [dtype for dtype in DTYPES if getattr(torch, dtype) in supported]


@pytest.mark.parametrize("name", [name_of(info) for info in op_db])
@pytest.mark.filterwarnings("ignore")
def test_samples_have_the_results_and_gradients_of_eager_mode(
    name: str, request: pytest.FixtureRequest
) -> None:
    """A draw takes a sample of one dtype per operator; all are eight samples of each."""
    torch.set_num_threads(1)
    draw = request.config.getoption("--draw")
    dtypes = dtypes_of(name)
    if draw > 1:
        dtypes = dtypes[len(name) % max(len(dtypes), 1) :][:1]
    reasons = [exceptions.reason(name, dtype) for dtype in dtypes]
    compared = [d for d, reason in zip(dtypes, reasons, strict=True) if reason is None]
    if not compared:
        pytest.skip(next((r for r in reasons if r), "none of these dtypes"))
    for dtype in compared:
        compare(name, dtype, 1 if draw > 1 else 8)


def compare(name: str, dtype: str, most: int) -> None:
    backend = "auto" if name in exceptions.COMPILED else "reference"
    options = Options(backend=backend, threads=1)
    for number, call in enumerate(samples.calls(operators()[name], getattr(torch, dtype), most)):
        expected = samples.eager(call, number)
        found = None if expected is None else samples.compiled(call, options, number)
        if found is None:
            continue
        if name in exceptions.TIES:
            assert samples.agrees_in_values(expected, found)
        else:
            assert not samples.disagreement(call, expected, found, number), (dtype, number)


def test_exceptions_are_of_operators_that_there_are() -> None:
    assert not sorted(exceptions.named() - operators().keys())

"""`pad` against NumPy's: every mode with its keyword, any widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, InputError, ShapeError

RANDOM = np.random.default_rng(0)
SHAPES = ((5,), (1,), (3, 4), (1, 3), (2, 3, 2))
DTYPES = ("f4", "i4", "u1")
CALLS: dict[str, list[dict[str, Any]]] = {
    "constant": [{}, {"constant_values": (2, 3)}],
    "edge": [{}],
    "wrap": [{}],
    "reflect": [{}, {"reflect_type": "odd"}],
    "symmetric": [{}, {"reflect_type": "odd"}],
    "linear_ramp": [{}, {"end_values": 3}, {"end_values": (3, 9)}],
    "maximum": [{}, {"stat_length": 2}, {"stat_length": (1, 2)}],
    "minimum": [{}, {"stat_length": 2}],
    "mean": [{}, {"stat_length": 2}],
    "median": [{}, {"stat_length": 2}],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CALLS)
def test_pad_is_numpys(mode: str, dtype: str) -> None:
    for shape in SHAPES:
        x = RANDOM.integers(0, 50, shape).astype(dtype)
        for widths in (2, (1, 3), [(1, 2)] + [(0, 3)] * (len(shape) - 1), 7, 0):
            for given in CALLS[mode]:
                expected = np.pad(x, widths, mode=mode, **given)  # type: ignore[call-overload]
                found = np.asarray(rnp.pad(x, widths, mode, **given))
                assert found.dtype == expected.dtype
                np.testing.assert_allclose(
                    found, expected, atol=1e-5, err_msg=f"{shape}, {widths}, {given}"
                )


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_compiled_pads_have_derivatives_and_batches(backend: str) -> None:
    x = RANDOM.normal(size=(4, 3))

    def padded(row: Any) -> Any:
        return rnp.pad(row, (2, 4), "reflect", reflect_type="odd")

    found = rlx.jit(rlx.vmap(padded), backend=backend)(x)
    expected = np.pad(x, ((0, 0), (2, 4)), "reflect", reflect_type="odd")
    np.testing.assert_allclose(found, expected, atol=1e-12)
    slopes = rlx.jit(rlx.jacrev(padded), backend=backend)(x[0])
    columns = [np.pad(e, (2, 4), "reflect", reflect_type="odd") for e in np.eye(3)]
    np.testing.assert_allclose(slopes, np.stack(columns, 1), atol=1e-12)


def test_widths_by_axis_zeros_and_functions() -> None:
    x = RANDOM.normal(size=(2, 3))
    np.testing.assert_array_equal(rnp.pad(x, {-1: (1, 0)}), np.pad(x, ((0, 0), (1, 0))))
    np.testing.assert_array_equal(rnp.pad(x, 1, "empty")[1:-1, 1:-1], x)

    def ends(vector: Any, widths: Any, axis: int, given: Any) -> Any:
        return vector.at[: widths[0]].set(given["value"] + axis)

    found = rnp.pad(x, ((1, 0), (2, 0)), ends, value=7)
    np.testing.assert_array_equal(found[0, 2:], 7)
    np.testing.assert_array_equal(found[:, :2], 8)


def test_what_does_not_fit_is_reported() -> None:
    x = np.ones((2, 3))
    with pytest.raises(ShapeError, match="pad mode is 'middle'"):
        rnp.pad(x, 1, "middle")
    with pytest.raises(InputError, match="`end_values=` with pad mode 'edge'"):
        rnp.pad(x, 1, "edge", end_values=2)
    with pytest.raises(ShapeError, match="which is empty"):
        rnp.pad(np.ones((0, 2)), 1, "mean")
    with pytest.raises(InputError, match="stat_length is 0"):
        rnp.pad(x, 1, "mean", stat_length=0)
    with pytest.raises(ShapeError, match=r"pad_width of shape \(3, 2\) where shape \(2, 2\)"):
        rnp.pad(x, [(1, 1)] * 3)
    with pytest.raises(ShapeError, match="not negative"):
        rnp.pad(x, -1)
    with pytest.raises(InputError, match="give integers"):
        rnp.pad(x, 1.5)
    with pytest.raises(InputError, match="give integers"):
        rnp.pad(x, ((1, 2), (3,)))
    with pytest.raises(ShapeError, match="axis 5 is out of range"):
        rnp.pad(x, {5: 1})
    with pytest.raises(ShapeError, match=r"pad_width of shape \(3,\)"):
        rnp.pad(x, {0: (1, 2, 3)})
    with pytest.raises(ShapeError, match=r"stat_length of shape \(3,\)"):
        rnp.pad(x, 1, "mean", stat_length=(1, 2, 3))
    with pytest.raises(InputError, match=r"stat_length is 1\.5"):
        rnp.pad(x, 1, "mean", stat_length=1.5)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**62) - 1, 2**63 - 1, np.int64(2**53 + 1)])
def test_integers_around_integers_are_exact(value: int) -> None:
    x = np.array([2**62 + 1, 3])
    for values in (value, (value, 1)):
        found = rnp.pad(x, 1, constant_values=values)
        np.testing.assert_array_equal(found, np.pad(x, 1, constant_values=values))
    most = np.array([2**64 - 1], np.uint64)
    np.testing.assert_array_equal(rnp.pad(most, 1, constant_values=2**64 - 1), most[[0, 0, 0]])


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2**31, -(2**31) - 1])
@pytest.mark.parametrize("sides", [False, True])
def test_numbers_that_an_integer_cannot_hold_are_refused(value: Any, sides: bool) -> None:
    values = (0, value) if sides else value
    with pytest.raises(DTypeError, match="does not fit i32"):
        rnp.pad(np.array([1], np.int32), 1, constant_values=values)


@pytest.mark.parametrize("endpoint", [True, False])
def test_whole_steps_give_whole_numbers(endpoint: bool) -> None:
    for start, stop, num in (
        (3, 24, 7),
        (3, 24, 8),
        (0, 1, 7),
        (5, -5, 11),
        (-3, 4, 9),
        (0, 10, 1),
    ):
        expected = np.linspace(start, stop, num, endpoint=endpoint, dtype=int)
        found = rnp.linspace(start, stop, num, endpoint=endpoint, dtype=int)
        np.testing.assert_array_equal(found, expected)

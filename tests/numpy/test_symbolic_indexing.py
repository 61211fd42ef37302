"""Parts of axes whose extent is known at the call only are those that NumPy takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import DTypeError, IndexOutOfRangeError, ShapeError, UnsupportedError
from rlx.ir.dtype import DType

N = rlx.Dim("n", min=2, max=16)
TAKEN: dict[str, Any] = {
    "last": np.s_[:, -1], "second": np.s_[:, 1], "last two": np.s_[:, -2:],
    "all but the last": np.s_[:, :-1], "inside": np.s_[:, 1:-1], "every second": np.s_[:, 1::2],
    "backwards": np.s_[:, ::-1], "every second from the end": np.s_[1:, ::-2],
    "backwards to the second": np.s_[:, -1:0:-1], "more than there are": np.s_[:, -20:],
    "beyond the end": np.s_[:, 20:], "nothing": np.s_[:, -1:0],
    "with a new axis": np.s_[None, ..., -1], "in another axis too": np.s_[1:, :-1],
    "both ends": np.s_[:, np.array([0, -1])],
}  # fmt: skip


def graph_of(function: Any, *others: Any) -> rlx.Graph:
    graph: rlx.Graph = rlx.jit(function).trace(rlx.TensorType(DType.F32, (3, N)), *others).graph
    return graph


def numbered(n: int) -> np.ndarray[Any, Any]:
    return np.arange(3 * n, dtype=np.float32).reshape(3, n)


def test_parts_are_those_of_numpy_for_all_extents() -> None:
    program = rlx.compile(graph_of(lambda x: tuple(x[index] for index in TAKEN.values())))
    for n in (2, 3, 16):
        x = numbered(n)
        for (name, index), found in zip(TAKEN.items(), program(x), strict=True):
            np.testing.assert_array_equal(found, x[index], err_msg=f"{name} of {n}")


def test_elements_roll_around_the_end_of_any_extent() -> None:
    """Also by more than the extent, along several axes, and by half of it."""

    def rolled(x: Any) -> tuple[Any, ...]:
        y = rnp.roll(x, 3, 1), rnp.roll(x, -19, -1), rnp.roll(x, (1, 2), (0, 1)), rnp.roll(x, 5)
        return *y, rnp.fft.fftshift(x), rnp.fft.ifftshift(x, 1)

    def expected(x: Any) -> tuple[Any, ...]:
        y = np.roll(x, 3, 1), np.roll(x, -19, -1), np.roll(x, (1, 2), (0, 1)), np.roll(x, 5)
        return *y, np.fft.fftshift(x), np.fft.ifftshift(x, 1)

    for backend in ("llvm", "c", "reference"):
        program = rlx.compile(graph_of(rolled), backend=backend)
        for n in (2, 3, 16):
            x = numbered(n)
            for found, meant in zip(program(x), expected(x), strict=True):
                np.testing.assert_array_equal(found, meant)
    weights = numbered(5)
    slope = rlx.compile(graph_of(rlx.grad(lambda x: rnp.sum(rnp.roll(x, 2, 1) * rnp.cumsum(x, 1)))))
    fixed = rlx.grad(lambda x: rnp.sum(rnp.roll(x, 2, 1) * rnp.cumsum(x, 1)))
    np.testing.assert_allclose(slope(weights)[0], fixed(weights), rtol=1e-6)


@pytest.mark.parametrize(
    ("shift", "axis"), [((1, 2), 1), ((1,), (0, 1)), ((1, 2), None), (3, ()), ((1, -1), (-1, 0))]
)
def test_shifts_and_axes_pair_as_in_numpy(shift: Any, axis: Any) -> None:
    x = numbered(4)
    np.testing.assert_array_equal(rnp.roll(x, shift, axis), np.roll(x, shift, axis))


def test_shifts_that_fit_no_axes_are_typed_errors() -> None:
    x = numbered(4)
    with pytest.raises(ShapeError, match=r"(?s)3 shifts for 2 axes.*test_symbolic"):
        rnp.roll(x, (1, 2, 3), (0, 1))
    with pytest.raises(DTypeError, match=r"shift is 1\.5; it must be an integer"):
        rnp.roll(x, 1.5, 0)
    with pytest.raises(ShapeError, match="axis 5 is out of range"):
        rnp.fft.fftshift(x, 5)


def test_bounds_of_any_integer_type_are_the_same_bounds() -> None:
    last, two = np.int64(-1), np.int32(-2)
    program = rlx.compile(graph_of(lambda x: (x[:, two:], x[:, :last], x[:, last::two])))
    for n in (2, 7):
        x = numbered(n)
        for found, expected in zip(program(x), (x[:, -2:], x[:, :-1], x[:, -1::-2]), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_extents_are_bounds_and_indices() -> None:
    def parts(x: Any, y: Any) -> tuple[Any, ...]:
        n = x.shape[1]
        return y[:n], y[n:], y[n - 1 :: -1], x[:, 1 - n :], x[:, n - 1]

    program = rlx.compile(graph_of(parts, rlx.TensorType(DType.F32, (20,))))
    y = np.arange(20, dtype=np.float32)
    for n in (2, 7, 16):
        x = numbered(n)
        expected = y[:n], y[n:], y[n - 1 :: -1], x[:, 1 - n :], x[:, n - 1]
        for found, wanted in zip(program(x, y), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("index", [np.s_[:, 1.5:], np.s_[:, ::1.5], np.s_[:, "a":], np.s_[0.5:]])
def test_a_bound_that_is_no_integer_is_reported(index: Any) -> None:
    with pytest.raises(DTypeError, match="it must be an integer"):
        graph_of(lambda x: x[index])


@pytest.mark.parametrize("length", [2, 7])
def test_a_mask_of_another_length_is_reported(length: int) -> None:
    mask = np.arange(length) < 1
    for take in (lambda x: x[mask], lambda x: x[..., mask, :]):
        with pytest.raises(ShapeError, match="a mask has shape"):
            rlx.jit(take)(np.ones((5, 3), np.float32))
    with pytest.raises(ShapeError, match="a mask has shape"):
        graph_of(lambda x: x[:, mask])
    right = np.arange(5) < 2
    assert rlx.jit(lambda x: x[None, ..., right, :])(np.ones((5, 3))).shape == (1, 2, 3)


def test_functions_that_take_parts_do_so_too() -> None:
    program = rlx.compile(graph_of(lambda x: (rnp.take(x, -1, axis=1), rnp.diff(x, axis=1))))
    x = numbered(5) ** 2
    for found, expected in zip(program(x), (x[:, -1], np.diff(x, axis=1)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_parts_are_set_where_they_are_taken() -> None:
    program = rlx.compile(graph_of(lambda x: (x.at[:, -1].set(7), x.at[0, 1:].add(1))))
    for n in (2, 9):
        last, rest = numbered(n), numbered(n)
        last[:, -1] = 7
        rest[0, 1:] += 1
        for found, expected in zip(program(numbered(n)), (last, rest), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_computed_indices_count_from_the_end_and_are_checked() -> None:
    places = rlx.TensorType(DType.I64, (2,))
    program = rlx.compile(graph_of(lambda x, at: x[:, at], places))
    for n in (3, 9):
        found = program(numbered(n), np.array([-3, 1]))[0]
        np.testing.assert_array_equal(found, numbered(n)[:, [-3, 1]])
    with pytest.raises(IndexOutOfRangeError, match="-3 as a negative index"):
        program(numbered(2), np.array([-3, 1]))


def test_the_slope_of_the_last_element_is_its_own() -> None:
    graph = graph_of(rlx.grad(lambda x: rnp.sum(x[:, -1] ** 2)))
    x = numbered(4)
    expected = np.zeros_like(x)
    expected[:, -1] = 2 * x[:, -1]
    np.testing.assert_array_equal(rlx.compile(graph)(x)[0], expected)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (np.s_[:, -3], r"index -3 of axis 1 is out of range in runs where n is too small"),
        (np.s_[:, 2], r"(?s)index 2 of axis 1.*at least 3"),
        (np.s_[:, :5], "whether 5 elements are more than the extent n of axis 1 differs"),
        (np.s_[:, -5:], "whether 5 elements are more than the extent n of axis 1 differs"),
        (np.s_[:, 2:-1], "whether the slice 2:-1 is empty differs"),
    ],
)
def test_what_the_bounds_leave_open_is_refused(index: Any, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        graph_of(lambda x: x[index])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: rnp.fft.fft(x[0]),
        lambda x: rnp.pad(x[0], 1, mode="edge"),
        lambda x: rnp.linalg.svd(x),
        lambda x: rnp.convolve(x[0], rnp.ones(3)),
        lambda x: rnp.correlate(x[0], x[1][:3]),
        lambda x: rnp.interp(0.5, x[0], x[1]),
    ],
)
def test_functions_that_need_a_number_say_so_at_the_users_line(function: Any) -> None:
    n = rlx.Dim("n", max=16)
    with pytest.raises(rlx.RlxError, match=r"(symbolic|differs).*\n.*test_symbolic_indexing"):
        rlx.jit(function).graph(rlx.TensorType(DType.F32, (2, n)))


def test_positions_out_of_range_are_neither_deleted_nor_inserted() -> None:
    with pytest.raises(IndexOutOfRangeError, match="delete: position 3 is out of range"):
        rnp.delete(rnp.arange(3), 3)
    with pytest.raises(IndexOutOfRangeError, match="delete: position 0 is out of range"):
        rnp.delete(rnp.zeros((0, 2)), 0, axis=0)
    with pytest.raises(IndexOutOfRangeError, match="insert: position 5 is out of range"):
        rnp.insert(rnp.arange(3), 5, 1)
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        rnp.delete(rnp.zeros((2, 2)), 0, axis=2)


@pytest.mark.parametrize("axis", [0, 1])
def test_functions_of_vectors_along_an_axis_take_any_number_of_vectors(axis: int) -> None:
    program = rlx.compile(graph_of(lambda x: rnp.apply_along_axis(lambda r: r[:2] - r[1], axis, x)))
    for n in (2, 16):
        x = numbered(n)
        expected = np.apply_along_axis(lambda r: r[:2] - r[1], axis, x)
        np.testing.assert_array_equal(program(x)[0], expected)


def test_vectors_along_an_axis_are_computed_together() -> None:
    """The program does not grow with their number."""

    def nodes(rows: int) -> int:
        given = rlx.TensorType(DType.F32, (rows, 4))
        graph = rlx.jit(lambda x: rnp.apply_along_axis(rnp.cumsum, 1, x)).graph(given)
        return len(graph.nodes)

    assert nodes(10) == nodes(10_000)

"""Operators of `jax.lax` that are made of others: convolutions, and formats of fewer bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import DTypeError, InputError, ShapeError

RANDOM = np.random.default_rng(7)

PADS: Any = ["SAME", "VALID", ((1, 2), (0, 3))]


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype("f4")


@pytest.mark.parametrize("strides", [(1, 2), (3, 5)])
@pytest.mark.parametrize("padding", PADS)
def test_transposed_convolutions_are_jaxs(strides: Any, padding: Any) -> None:
    jax = pytest.importorskip("jax")
    x, w = normal(2, 5, 4, 3), normal(3, 2, 3, 3)
    for apart, turned, consistent in itertools.product(
        [None, (2, 1)], [False, True], [False, True]
    ):
        options: Any = {
            "rhs_dilation": apart, "transpose_kernel": turned, "use_consistent_padding": consistent
        }  # fmt: skip
        expected = jax.lax.conv_transpose(x, w, strides, padding, **options)
        found = lax.conv_transpose(x, w, strides, padding, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")])
def test_groups_of_a_batch_have_their_share_of_the_outputs(spec: tuple[str, str, str]) -> None:
    order = [["NCHW".index(letter) for letter in spec[0]], ["OIHW".index(c) for c in spec[1]]]
    x, w = np.transpose(normal(6, 4, 5, 7), order[0]), np.transpose(normal(9, 4, 3, 2), order[1])
    strides, padding = (1, 2), [(1, 0), (0, 1)]
    outputs, channels = spec[1].index("O"), spec[2].index("C")

    def grouped(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, strides, padding, dimension_numbers=spec, batch_group_count=3
        )

    parts = [
        lax.conv_general_dilated(a, b, strides, padding, dimension_numbers=spec)
        for a, b in zip(np.split(x, 3), np.split(w, 3, outputs), strict=True)
    ]
    expected = np.concatenate([np.asarray(part) for part in parts], channels)
    for found in (grouped(x, w), rlx.jit(grouped)(x, w)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    jax = pytest.importorskip("jax")
    theirs = jax.lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=spec, batch_group_count=3
    )
    np.testing.assert_allclose(expected, theirs, rtol=1e-4, atol=1e-4)


def test_groups_that_divide_nothing_are_reported() -> None:
    x, w = normal(4, 2, 5), normal(6, 2, 3)
    with pytest.raises(ShapeError, match="3 groups of a batch of 4 and of 6 outputs"):
        lax.conv_general_dilated(x, w, (1,), "SAME", batch_group_count=3)
    with pytest.raises(ShapeError, match="one of them must be 1"):
        lax.conv_general_dilated(x, w, (1,), "SAME", feature_group_count=2, batch_group_count=2)


SPECS: Any = [
    (("NCHW", "OIHW", "NHWC"), (2, 3, 5, 4), (2, 3, 3, 2)),
    (("CNWH", "WIHO", "NWCH"), (3, 2, 5, 4), (2, 3, 3, 2)),
    (("NCT", "TIO", "NTC"), (2, 3, 6), (3, 3, 4)),
    (None, (2, 6, 3), (3, 3, 4)),
    (None, (1, 3, 4, 2, 2), (2, 2, 3, 2, 1)),
]


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_axes_of_convolutions_are_named_as_in_jax(number: int) -> None:
    jax = pytest.importorskip("jax")
    spec, *shapes = SPECS[number]
    x, w = (normal(*shape) for shape in shapes)
    twos = (2,) * (x.ndim - 2)
    for padding in ("SAME", "VALID"):
        expected = jax.lax.conv_transpose(x, w, twos, padding, dimension_numbers=spec)
        found = lax.conv_transpose(x, w, twos, padding, dimension_numbers=spec)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    if spec is not None:
        theirs = jax.lax.conv_dimension_numbers(x.shape, w.shape, spec)
        numbers = lax.conv_dimension_numbers(x.shape, w.shape, spec)
        assert tuple(numbers) == (theirs.lhs_spec, theirs.rhs_spec, theirs.out_spec)
        expected = jax.lax.conv_general_dilated(
            x, w, twos, [(2, 1)] * (x.ndim - 2), twos, dimension_numbers=theirs
        )
        found = lax.conv_general_dilated(
            x, w, twos, [(2, 1)] * (x.ndim - 2), twos, dimension_numbers=numbers
        )
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_transposed_convolution_is_the_gradient_of_one(backend: Any) -> None:
    """With turned taps and consistent padding it is that of the convolution, by its input."""
    x, w = RANDOM.normal(size=(3, 6, 2)), RANDOM.normal(size=(4, 2, 5))
    numbers = ("NHC", "HIO", "NHC")

    def forward(x: Any) -> Any:
        return lax.conv_general_dilated(x, w, (2,), [(1, 1)], dimension_numbers=numbers)

    def back(y: Any, w: Any) -> Any:
        return lax.conv_transpose(
            y, w, (2,), [(1, 1)], transpose_kernel=True, use_consistent_padding=True
        )

    y, pull = rlx.vjp(forward, x)
    found = rlx.jit(back, backend=backend)(y, w)
    np.testing.assert_allclose(found, pull(y)[0], rtol=1e-10, atol=1e-12)

    def energy(y: Any) -> Any:
        return rnp.sum(back(y[None], w) ** 2)

    each = rlx.jit(rlx.vmap(rlx.grad(energy)), backend=backend)(y)
    np.testing.assert_allclose(each, 2 * forward(found), rtol=1e-10, atol=1e-12)


UNEVEN: list[tuple[str, Any]] = [
    ("limit_indices", lambda: lax.slice(np.arange(5), (0,), (3, 4))),
    ("start_indices", lambda: lax.slice(np.ones((2, 2)), (0,), (3,))),
    ("strides", lambda: lax.slice(np.arange(5), (0,), (3,), (1, 1))),
    ("window_dimensions", lambda: lax.reduce_window(normal(4), 0.0, lax.add, (2, 2))),
    ("window_strides", lambda: lax.reduce_window(normal(4, 4), 0.0, lax.add, (2, 2), (1,))),
    ("window_strides", lambda: lax.reduce_window(normal(4, 4), 0.0, lax.add, (2, 2), (1,), "SAME")),
    ("padding", lambda: lax.reduce_window(normal(4), 0.0, lax.add, (2,), (1,), ((1, 1),) * 2)),
    ("base_dilation", lambda: lax.reduce_window(
        normal(4), 0.0, lax.add, (2,), base_dilation=(1, 1))),
    ("window_dilation", lambda: lax.reduce_window(
        normal(4), 0.0, lax.add, (2,), window_dilation=(1, 1))),
    ("window_shape", lambda: lax.padtype_to_pads((4,), (2, 2), (1,), "SAME")),
    ("window_strides", lambda: lax.padtype_to_pads((4,), (2,), (1, 2), "SAME")),
    ("padding_config", lambda: lax.pad(np.arange(3), 0, [(1, 2)])),
    ("padding_config", lambda: lax.pad(np.arange(3), 0, [(1, 2, 0)] * 2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "use"), UNEVEN, ids=[f"{i}: {u[0]}" for i, u in enumerate(UNEVEN)]
)
def test_lists_that_do_not_have_an_entry_for_each_axis_are_refused(name: str, use: Any) -> None:
    with pytest.raises(ShapeError, match=rf"{name} is .* for \d axes") as caught:
        use()
    assert "test_lax.py" in str(caught.value)


@pytest.mark.parametrize("groups", [0, 3, -1])
def test_shapes_of_batches_in_groups_are_reported(groups: int) -> None:
    shapes = (4, 2, 5), (4, 2, 3)
    assert lax.conv_shape_tuple(*shapes, (1,), ((0, 0),), 2) == (2, 4, 3)
    with pytest.raises(ShapeError, match=f"batch_group_count is {groups} for a batch of 4"):
        lax.conv_shape_tuple(*shapes, (1,), ((0, 0),), groups)


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_a_number_is_replaced_as_its_only_block(dtype: str) -> None:
    x, new = np.array(3, dtype), np.array(4, dtype)
    for update in (lax.dynamic_update_slice, rlx.jit(lax.dynamic_update_slice)):
        found = update(x, new, ())
        assert (found.dtype, found.shape) == (dtype, ())
        assert found == 4


def test_convolutions_without_a_meaning_are_refused() -> None:
    x, w = np.zeros((1, 6, 3)), np.zeros((3, 3, 4))
    with pytest.raises(ShapeError, match="padding is 'FULL'"):
        lax.conv_transpose(x, w, (2,), "FULL")
    with pytest.raises(ShapeError, match="name axes 'NHX'"):
        lax.conv_transpose(x, w, (2,), "SAME", dimension_numbers=("NHX", "HIO", "NHC"))
    with pytest.raises(ShapeError, match="padding by name needs lhs_dilation 1"):
        lax.conv_general_dilated(x, w, (1,), "SAME", (2,), None, ("NHC", "HIO", "NHC"))
    with pytest.raises(ShapeError, match="the same axes of space"):
        lax.conv_transpose(x, w[0], (2,), "SAME")


NUMBERS = np.array(
    [1.1, -2.7, 1e-9, 7e4, np.nan, np.inf, -1e-30, -0.0, 65519.9, 65520, 3e-5, 6.2e-5], "f4"
)


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_in_fewer_bits_are_jaxs(dtype: str, backend: Any) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True), np.errstate(over="ignore"):
        spread = RANDOM.normal(size=60) * 10.0 ** RANDOM.integers(-20, 20, 60)
        x = np.concatenate([NUMBERS, spread]).astype(jax.numpy.dtype(dtype))
        sizes = [(5, 10), (8, 7), (4, 0), (11, 52), (1, 1)]
        found = rlx.jit(lambda x: [lax.reduce_precision(x, *s) for s in sizes], backend=backend)(x)
        for size, given in zip(sizes, found, strict=True):
            expected = np.asarray(jax.lax.reduce_precision(x, *size)).astype("f8")
            np.testing.assert_array_equal(np.asarray(given).astype("f8"), expected)
            known = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(given)[known], np.signbit(expected)[known])


def test_numbers_with_the_bits_of_halves_are_halves() -> None:
    x = RANDOM.normal(size=200).astype("f4")
    np.testing.assert_array_equal(lax.reduce_precision(x, 5, 10), x.astype("f2").astype("f4"))


def test_derivatives_are_rounded_as_numbers_are() -> None:
    """1.3 is 1.25 with two bits of mantissa, in both modes and in the second derivative."""

    def scaled(x: Any) -> Any:
        return lax.reduce_precision(x, 5, 2) * 1.3

    assert float(rlx.grad(scaled)(2.3)) == 1.25
    value, tangent = rlx.jvp(lambda x: lax.reduce_precision(x, 5, 2), (2.3,), (1.3,))
    assert (float(value), float(tangent)) == (2.5, 1.25)
    np.testing.assert_array_equal(rlx.jit(rlx.vmap(rlx.grad(scaled)))(np.ones(3)), 1.25)
    jax = pytest.importorskip("jax")

    def cubed(lib: Any) -> Any:
        return lambda x: (lib.lax.reduce_precision(x, 5, 2) * 1.3) ** 3

    np.testing.assert_allclose(
        rlx.grad(rlx.grad(cubed(rlx)))(2.3), jax.grad(jax.grad(cubed(jax)))(2.3), rtol=1e-6
    )


def test_what_cannot_be_rounded_is_refused() -> None:
    with pytest.raises(DTypeError, match="dtype i64"):
        lax.reduce_precision(np.arange(3), 5, 2)
    with pytest.raises(InputError, match="exponent_bits is 0"):
        lax.reduce_precision(np.zeros(3), 0, 2)


@pytest.mark.parametrize(
    ("shapes", "sizes", "dims"),
    [
        (((5, 3), (2, 3, 4)), [2, 2], ((([1], [1]), ([], [])), [0], [0])),
        (((2, 5, 3), (3, 2, 4, 2)), [[1, 3], [0, 5]], ((([2], [0]), ([0], [1])), [1], [3])),
        (((6, 2, 5), (2, 2, 6)), [[2, 3], [1, 1]], ((([0], [2]), ([1], [0])), [2], [1])),
        (((5, 3), (5, 4)), [2, 2], ((([0], [0]), ([], [])), [0], [])),
        (((2, 5, 3), (5, 2, 4)), [[2, 1], [0, 3]], ((([1], [0]), ([0], [1])), [1], [])),
        (((2, 2, 5), (2, 5, 4)), [2, 1], ((([2], [1]), ([0], [0])), [0], [])),
        (((4, 5, 3), (2, 3, 4)), [[2, 1], [0, 3], [5, 0], [4, 1]],
         ((([2], [1]), ([], [])), [1], [0])),
    ],
    ids=["rows", "batched_rows", "inner_batch", "sums", "batched_sums", "batches", "rows_of_rows"],
)  # fmt: skip
def test_products_of_groups_are_jaxs(shapes: Any, sizes: Any, dims: Any) -> None:
    theirs = pytest.importorskip("jax.lax")
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    counts = np.array(sizes, np.int32)

    def of(home: Any, x: Any, w: Any) -> Any:
        return home.ragged_dot_general(x, w, counts, home.RaggedDotDimensionNumbers(*dims))

    expected = of(theirs, x, w)
    np.testing.assert_allclose(of(lax, x, w), expected, rtol=1e-5, atol=1e-6)
    found = rlx.vmap(lambda x: of(lax, x, w))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(found[1], 2 * expected, rtol=1e-5, atol=1e-6)
    gradients = rlx.grad(lambda *g: rnp.sum(of(lax, *g) ** 2), (0, 1))(x, w)
    ways = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    wide = [np.float64(each) for each in (x, w)]
    for place, (way, gradient) in enumerate(zip(ways, gradients, strict=True)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = list(wide)
            moved[place] = wide[place] + step * way
            ends.append(np.sum(of(lax, moved[0], moved[1]) ** 2))
        np.testing.assert_allclose(np.sum(gradient * way), (ends[0] - ends[1]) / 2e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("backend", ["reference", "c", "llvm"])
def test_top_k_orders_zeros_by_their_sign(dtype: str, backend: Any) -> None:
    x = np.array([-0.0, 0.0, -0.0, 0.0, np.nan, -3, 5, -np.inf], dtype)
    values, places = rlx.jit(lambda x: lax.top_k(x, 8), backend=backend)(x)
    np.testing.assert_array_equal(places, [4, 6, 1, 3, 0, 2, 5, 7])  # JAX's
    np.testing.assert_array_equal(values.view(f"u{x.itemsize}"), x[places].view(f"u{x.itemsize}"))


def test_top_k_has_the_derivative_of_what_it_takes() -> None:
    x = np.array([[-0.0, 0, 2, -1], [3, 1, 0, -0.0]], np.float32)
    weights = np.array([3, 5], np.float32)
    slope = rlx.grad(lambda x: rnp.sum(lax.top_k(x, 2)[0] * weights))(x)
    np.testing.assert_array_equal(slope, [[0, 5, 3, 0], [3, 5, 0, 0]])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "c8"])
def test_convolutions_have_the_dtype_of_their_operands(dtype: str) -> None:
    """Integers wrap as sums of that width do; complex numbers are multiplied whole."""
    x, w = np.array([100, 7, -3, 50, 9]).astype(dtype), np.array([5, -2, 3]).astype(dtype)
    if dtype == "c8":
        x, w = x * np.complex64(1 - 2j), w * np.complex64(0.5 + 1j)
    found = lax.conv_general_dilated(x[None, None], w[None, None], (1,), "VALID")
    expected = np.correlate(x.astype("c16" if dtype == "c8" else "i8"), w.conj())
    assert found.dtype == dtype
    np.testing.assert_allclose(found[0, 0], expected.astype(dtype), rtol=1e-6)


PAIRED_AXES: Any = {
    "matrices": ((256, 80), (80, 24), (((1,), (0,)), ((), ()))),
    "transposed": ((33, 80), (24, 80), (((1,), (1,)), ((), ()))),
    "batches": ((3, 40, 80), (3, 80, 24), (((2,), (1,)), ((0,), (0,)))),
}


@pytest.mark.parametrize("backend", ["c", "llvm", "reference"])
@pytest.mark.parametrize("kinds", ["i1 i1", "u1 i1", "u1 u1", "i2 i2"])
@pytest.mark.parametrize("case", PAIRED_AXES)
def test_products_of_narrow_integers_are_summed_in_the_dtype_asked_for(
    case: str, kinds: str, backend: Any
) -> None:
    *shapes, numbers = PAIRED_AXES[case]
    a, b = (
        RANDOM.integers(-(2**15), 2**15, shape).astype(kind)
        for shape, kind in zip(shapes, kinds.split(), strict=True)
    )
    function = rlx.jit(
        lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type="int32"), backend=backend
    )
    letters = {"matrices": "ik,kj->ij", "transposed": "ik,jk->ij", "batches": "bik,bkj->bij"}
    expected = np.einsum(letters[case], a.astype("i8"), b.astype("i8")).astype("i4")
    np.testing.assert_array_equal(function(a, b), expected)


@pytest.mark.parametrize("kinds", ["i1 i1", "u1 i1", "i4 i4", "i8 i8"])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_integers_are_exact(kinds: str, groups: int) -> None:
    limit = 2**60 if kinds == "i8 i8" else 2**31
    x, w = (
        RANDOM.integers(-limit, limit, shape).astype(kind)
        for shape, kind in zip(((2, 9, 7, 8), (3, 2, 8 // groups, 12)), kinds.split(), strict=True)
    )
    numbers = ("NHWC", "HWIO", "NHWC")
    result = "int64" if kinds == "i8 i8" else "int32"
    found = rlx.jit(
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 2), ((1, 1), (0, 2)), None, (2, 1), numbers, groups,
            preferred_element_type=result,
        )
    )(x, w)  # fmt: skip
    wide = np.pad(x.astype("i8"), ((0, 0), (1, 1), (0, 2), (0, 0))).reshape(2, 11, 9, groups, -1)
    taps = w.astype("i8").reshape(3, 2, 8 // groups, groups, -1)
    parts = [
        np.einsum("nhwgi,igo->nhwgo", wide[:, 2 * row :, column:][:, :7, :8:2], taps[row, column])
        for row in range(3)
        for column in range(2)
    ]
    expected = np.sum(parts, axis=0).reshape(2, 7, 4, 12)
    np.testing.assert_array_equal(found, expected.astype(result))


def test_ragged_products_of_bytes_are_summed_in_the_dtype_asked_for() -> None:
    a, b = np.full((6, 40), 100, np.int8), np.full((2, 40, 3), -100, np.int8)
    found = lax.ragged_dot(a, b, np.array([4, 2]), preferred_element_type="int32")
    np.testing.assert_array_equal(found, np.full((6, 3), -400_000, np.int32))

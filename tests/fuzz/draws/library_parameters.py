"""How parameters of public functions are drawn, by their names; and which are not, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tests.fuzz.program import DTYPES as TYPES
from tests.jax.drawn import (
    FLAG,
    Draw,
    Generator,
    Given,
    axes,
    axes_from_the_front,
    axis,
    axis_from_the_front,
    each,
    first,
    number,
    one_of,
    permutation,
    shape,
    up_to,
    where,
)

BF16 = np.dtype(TYPES["bf16"])
FLOATS: tuple[Any, ...] = ("f4", "f4", "f4", "f8", "f2", BF16)
INTEGERS: tuple[Any, ...] = ("i4", "i4", "u1", "i8", "i1", "u4")
ALL: tuple[Any, ...] = ("f4", "f4", "f4", "f8", "c8", "?", *FLOATS, *INTEGERS)
REAL: tuple[Any, ...] = (*FLOATS, *INTEGERS)
INEXACT: tuple[Any, ...] = ("f4", "f4", "f8", "c8")


class Text(str):
    """Source that is written as it is."""

    __slots__ = ()


V = TypeVar("V")


def alike(words: str, value: V) -> dict[str, V]:
    """Return one value for each of several names."""
    return dict.fromkeys(words.split(), value)


def text(*choices: str) -> Generator:
    return one_of(*map(Text, choices))


def array(*dtypes: Any, ranks: tuple[int, int] = (0, 4)) -> Generator:
    def draw(d: Draw, _: Given) -> Any:
        found = d.shape()
        while not ranks[0] <= len(found) <= ranks[1]:
            found = d.shape()
        return d.values(dtypes or ALL, found)

    return draw


def shaped(*shapes: tuple[int, ...], of: Sequence[Any] = FLOATS) -> Generator:
    return lambda d, _: d.values(of, d.one(shapes))


def similar(*dtypes: Any) -> Generator:
    """An array that broadcasts with the first one, or a number of Python's."""

    def draw(d: Draw, given: Given) -> Any:
        extents = first(given).shape
        start = d.small(0, len(extents))
        y = d.values(dtypes or ALL, [d.one((1, e, e)) for e in extents[start:]])
        return y.flat[0].item() if y.size and d.chance(0.2) else y

    return draw


def like(*dtypes: Any) -> Generator:
    """An array of the first one's shape, and of its dtype if none is named."""
    return lambda d, given: d.values(dtypes or (first(given).dtype,), first(given).shape)


def per(place: int, *dtypes: Any) -> Generator:
    """A vector as long as an axis of the first array."""

    def draw(d: Draw, given: Given) -> Any:
        x = first(given)
        return d.values(dtypes or (x.dtype,), x.shape[place:][:1] if x.ndim else ())

    return draw


def several(*dtypes: Any) -> Generator:
    def draw(d: Draw, _: Given) -> Any:
        found = d.shape()
        return [d.values(dtypes or ALL, found) for _unused in range(d.small(1, 3))]

    return draw


def of_first(function: Any) -> Generator:
    return lambda d, given: function(d, first(given))


def within(d: Draw, given: Given) -> Any:
    """Positions on the axis that is given, or in the whole array; now and then outside."""
    x, along = first(given), given.get("axis")
    is_there = isinstance(along, int) and -x.ndim <= along < x.ndim
    extent = x.shape[along] if is_there and along is not None else x.size
    more = d.one((0, 0, 0, 2))
    low, high = -extent - more, max(extent, 1) + more
    return d.random.integers(low, high, d.one(((), (2,), (3, 1), (0,)))).astype("i4")


def taken(d: Draw, given: Given) -> Any:
    return np.zeros([d.one((1, e)) for e in first(given).shape], "i4")


def positive(d: Draw, _: Given) -> Any:
    """Hermitian matrices that are far from singular."""
    x = d.values(INEXACT, d.one(((3, 3), (2, 3, 3), (1, 1), (4, 4))))
    return np.asarray(x @ x.conj().swapaxes(-1, -2) + 4 * np.eye(x.shape[-1])).astype(x.dtype)


def block(d: Draw, given: Given) -> tuple[int, ...]:
    return tuple(d.small(0, extent) for extent in first(given).shape)


def starts(d: Draw, given: Given) -> Any:
    found = [d.small(-3, 4) for _ in first(given).shape]
    return np.array(found, "i4") if d.flag() else tuple(found)


def inner_block(d: Draw, given: Given) -> Any:
    return d.values((first(given).dtype,), [d.small(min(e, 1), e) for e in first(given).shape])


def broadcast(d: Draw, given: Given) -> Any:
    extents = first(given).shape
    return d.one(((2, *extents), extents, tuple(3 if e == 1 else e for e in extents), (2,)))


def placed(d: Draw, given: Given) -> Any:
    rank = first(given).ndim
    return d.one((tuple(range(rank)), tuple(range(1, rank + 1))))


def contracted(d: Draw, given: Given) -> Any:
    order = [int(a) for a in d.random.permutation(first(given).ndim)]
    together = d.small(0, len(order))
    last = d.small(together, len(order))
    return (order[together:last],) * 2, (order[:together],) * 2


def single_axes(d: Draw, given: Given) -> Any:
    found = tuple(a for a, extent in enumerate(first(given).shape) if extent == 1)
    return d.one((found, found[:1], None))


def sorted_vector(d: Draw, _: Given) -> Any:
    return np.sort(d.values(("f4", "f8", "i4"), (d.small(1, 5),)), axis=0)


_ARRAYS = (
    "x a A a1 ar ar1 object m operand arr "
    "array ary data f v y p val z in1 in2 input src numbers c r s e d u theta phi"
)
_SHAPES = one_of((), (3,), (2, 3), (0, 2), (1, 2, 2))
_PADS = one_of("SAME", "VALID", ((1, 0), (0, 2)), ((0, 0), (1, 1)), "SAME_LOWER")
_PAIRS = one_of((1, 1), (2, 1), (1, 2))
_IMAGE = shaped((2, 2, 5, 4), (1, 4, 6, 3), (3, 2, 4, 5), of=("f4", "f4", "f8", "f2"))
_KERNEL = shaped((4, 2, 2, 2), (2, 2, 3, 1), (4, 4, 1, 2), of=("f4", "f4", "f8"))
_MATRIX = shaped((3, 3), (2, 3), (3, 2), (2, 3, 2), (1, 1), of=INEXACT)
_SQUARE = shaped((3, 3), (2, 2), (2, 3, 3), (1, 1), of=INEXACT)
_SIGNAL = shaped((5,), (2, 3), (3, 2), (8,), of=("f4", "f8", "c8", "i4"))

PARAMETERS: Mapping[str, Generator] = {
    **alike(_ARRAYS, array()), "g": array(),
    **alike("b a2 ar2 x2 y2 other exponent", similar()),
    **alike("predictions logits query x1 lhs", array(*FLOATS, ranks=(1, 3))),
    **alike("targets key value rhs update updates", like()),
    **dict.fromkeys(
        ("arrays", "tup", "arys", "arrs", "operands", "arrays_and_dtypes", "keys"), several()
    ),
    "axis": axis, "axes": axes, "source": axis, "destination": axis,
    **dict.fromkeys(("axis1", "axis2", "axisa", "axisb", "axisc", "split_axis"), axis),
    "dimension": axis_from_the_front, "dimensions": axes_from_the_front,
    "permutation": permutation, "where": where,
    **dict.fromkeys(("initial", "init_value"), number),
    **dict.fromkeys(("fill_value", "default", "left", "right_value"), one_of(0, 1, 2.5)),
    "shape": shape, "new_shape": _SHAPES, "new_sizes": shape, "indices": within,
    "index": within, "ind": within, "obj": one_of(0, -1, 1), "values": similar(),
    "dtype": one_of("int32", "uint8", "float32", "complex64", "int8", "float16", "float64"),
    "index_dtype": one_of("int32", "uint8", "int64"),
    **dict.fromkeys(("new_dtype",), one_of("int32", "float32", "float16", "int8", "float64")),
    "preferred_element_type": one_of("float32", "float64", "int32"),
    "ddof": one_of(0, 1, 2, 0.5), "correction": one_of(0, 1, 1.5), "n": up_to(3), "N": up_to(4),
    "M": up_to(4), "side": one_of("left", "right"), "k": up_to(3, -3), "offset": up_to(3, -3),
    "decimals": up_to(2, -1), "order": one_of("C", "F"), "size": up_to(7, 1),
    "precision": one_of(None, "highest", "default"), "mode": one_of("clip", "fill", "wrap"),
    "norm": one_of(None, "ortho", "forward", "backward"), "s": one_of(None, (2,), (2, 3)),
    "method": one_of("linear", "lower", "higher", "nearest", "midpoint"),
    "bits": one_of(8, 4, 2), "alpha": one_of(1.0, 0.5), "eps": one_of(1e-5, 1e-2, 0.0),
    "beta": per(1), "gamma": per(1), "layout": one_of("NCHW", "NHWC"), "padding": _PADS,
    "window_shape": one_of(2, 1, 3, (2, 1), (1, 3)),
    "strides": one_of(None, 1, 2, (2, 1)), "dilation": one_of(1, 2, (1, 2)),
    "window_strides": _PAIRS, "lhs_dilation": _PAIRS, "rhs_dilation": _PAIRS,
    "filter_shape": _PAIRS, "window_dimensions": each(one_of(1, 2)),
    "base_dilation": each(one_of(1, 2)), "window_dilation": each(one_of(1, 2)),
    "feature_group_count": one_of(1, 2), "batch_group_count": one_of(1, 2), "groups": one_of(1, 2),
    "dimension_numbers": one_of(None, ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")),
    "start_indices": starts, "starts": starts, "slice_sizes": block, "sizes": block,
    "limit_indices": block, "start_index": up_to(4, -4), "limit_index": one_of(1, 2, -1, None),
    "slice_size": up_to(3), "stride": up_to(2, 1), "num_keys": one_of(1, 2),
    "reps": one_of(2, (2, 1), (1, 2, 2), ()), "repeats": one_of(0, 2, 3),
    "total_repeat_length": one_of(4, 7), "shift": one_of(1, -2, 7), "num": one_of(1, 4, 5),
    "start": one_of(0, 1, -3, 2.5), "stop": one_of(4, 7.5, -2), "step": one_of(1, 2, -1, 0.5),
    "base": one_of(2.0, 10.0, 3), "rtol": one_of(1e-3, 0.5), "atol": one_of(0.0, 1e-2),
    "tol": one_of(1e-3, None), "rcond": one_of(1e-3, 0.5, None), "UPLO": one_of("L", "U"),
    "on_singular": one_of("error", "nan"), "trans": one_of(0, 1, 2), "q": one_of(
        0.25, 1.0, 0.0, np.array([0.1, 1], "f4")), "weights": like("f4", "f8"),
    "bins": one_of(3, 10, np.array([-1, 0, 0.5, 2], "f4")), "range": one_of(None, (-1, 1), (0, 3)),
    "condition": array("?"), "segment_ids": of_first(
        lambda d, x: d.random.integers(-1, 4, x.shape[:1]).astype("i4")),
    "num_segments": one_of(2, 4, 5), "kth": one_of(0, 1, -1), "ord": one_of(
        None, "fro", "nuc", 1, 2, -1, -2, np.inf, -np.inf, 3), "nan": one_of(0.0, 2),
    "posinf": one_of(None, 9.0), "neginf": one_of(None, -9.0), "min": one_of(-1, 0, None),
    "max": one_of(1, 2.5, None), "a_min": one_of(-1, 0), "a_max": one_of(1, 2),
    "pad_width": one_of(1, (1, 2), 0, ((1, 0),)), "length": one_of(None, 4, 9),
    "minlength": one_of(0, 3, 9), "ndmin": one_of(0, 2), "kind": one_of("stable", "quicksort"),
    "bitorder": one_of("big", "little"), "indexing": one_of("xy", "ij"), "period": one_of(
        None, 2.0), "discont": one_of(None, 4.0), "trim": one_of("f", "b", "fb"),
    "dx": one_of(1.0, 0.5), "prepend": one_of(1), "append": one_of(0), "to_end": one_of(
        1, np.array([1, 2], "f4")), "to_begin": one_of(0, np.array([3], "f4")),
    "sorter": one_of(None), "edge_order": one_of(1, 2), "indices_or_sections": one_of(
        1, 2, 3, [1, 2]), "xp": sorted_vector, "fp": per(0, "f4", "f8"), "deg": one_of(1, 2, 0),
    "scale": one_of(None, 0.5, 2.0), "delta": one_of(1.0, 0.3), "factor": one_of(2, 1),
    "num_groups": one_of(1, 2), "num_classes": up_to(4, 1), "decay": one_of(0.9, 0.5),
    "negative_slope": one_of(0.01, 0.5), "momentum": one_of(0.9, 0.5), "rate": one_of(0.0, 0.5),
    "stddev": one_of(1.0, 0.1), "limit": one_of(1.0, 0.1), "in_axis": one_of(0, -2),
    "out_axis": one_of(1, -1), "generator": text("numpy.random.default_rng(3)"),
    "straight_through": one_of("identity", "clipped_identity", "tanh", "hard_tanh"),
    "coordinates": one_of("half_pixel", "align_corners", "asymmetric"),
    "fs": one_of(1.0, 2.0), "nperseg": one_of(None, 4, 8), "noverlap": one_of(None, 1, 2),
    "nfft": one_of(None, 8, 9), "window": one_of("hann", "hamming", "boxcar"),
    "detrend": one_of("constant", "linear", False), "scaling": one_of("density", "spectrum"),
    "average": one_of("mean", "median"), "boundary": one_of("fill", "wrap", "symm"),
    "fillvalue": one_of(0, 1.5), "type": one_of("linear", "constant"), "bp": one_of(0, 2, [1, 3]),
    "cval": one_of(0.0, 2.0), "calc_q": FLAG, "output": one_of("real", "complex"),
    "n_iter": one_of(50, 20), "lmbda": one_of(0.0, 0.5, 2.0), "reduction_dimension": one_of(-1, 0),
    "recall_target": one_of(0.95, 0.5), "exponent_bits": one_of(4, 5, 8), "mantissa_bits": one_of(
        2, 10), "rounding_method": one_of(0, 1), "padding_value": one_of(0, 1.5),
    "padding_config": each(one_of((0, 0, 0), (1, 2, 0), (-1, 1, 1), (0, 0, 2))),
    "start_dimension": up_to(2, -2), "stop_dimension": one_of(1, 2, 3), "rank": up_to(4),
    "broadcast_dimensions": placed, "like_arr": array(), "idxs": lambda d, _: [
        d.random.integers(0, 2, (3,)).astype("i4")], "labels": of_first(
        lambda d, x: d.random.integers(0, max(x.shape[-1] if x.ndim else 1, 1),
                                       x.shape[:-1]).astype("i4")),
    "lower": FLAG, "upper": FLAG, "copy": FLAG, "bias": FLAG, "test_elements": array(*REAL),
    "element": array(*REAL), "sample": array("f4", ranks=(2, 2)), "max_squarings": one_of(16, 2),
    "table": shaped((5, 3), (2, 4)), "state": one_of(0.5, np.float32(0.1)), "args": one_of(()),
    "function": text("lambda i, j: i * 2 + j"), "checkpoints": one_of(None, 1, 2),
    "max_trips": one_of(None, 9), "batch_size": one_of(None, 2), "unroll": one_of(1, 2),
    **alike("keepdims stable descending promote_integers reverse equal_nan invert return_index "
        "return_inverse return_counts return_sign rowvar returned increasing full_matrices "
        "compute_uv endpoint retstep sparse assume_unique right approximate tiled "
        "hermitian permute_l unit_diagonal symmetrize_input include_initial density sorted "
        "inplace wrap strip_zeros trim_leading_zeros ceil_mode count_include_pad training "
        "is_causal is_greatest antialias is_stable aggregate_to_topk transpose_kernel "
        "use_consistent_padding "
        "indices_are_sorted unique_indices eigvals_only compute_expm disp full exact repetition "
        "pivoting conjugate overwrite_a overwrite_b overwrite_c overwrite_data check_finite "
        "debug return_onesided input_onesided padded has_aux symmetric optimize", FLAG),
}  # fmt: skip

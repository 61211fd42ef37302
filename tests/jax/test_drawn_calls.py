"""Axes, keywords, dtypes and shapes of array functions compared with JAX, by generation.

Calls are drawn from JAX's signatures (`drawn`): another function costs a word below, and a
parameter that is its own a generator. What JAX gives rlx gives, in shape, dtype, weak type and
value; what one refuses the other does. What differs on purpose is listed with its reason, and in
`docs/reference/jax_differences.md`.
`RLX_DRAWN_CALLS` says how many calls of a function that JAX accepts are drawn: 2 by
default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import rlx.jax
from rlx.errors import RlxError
from tests.jax.drawn import (
    FLAG,
    INTEGERS,
    REAL,
    Always,
    Draw,
    Generator,
    Given,
    array,
    axes_from_the_front,
    axis,
    axis_from_the_front,
    axis_or_none,
    call,
    difference,
    each,
    first,
    like,
    one_of,
    permutation,
    several,
    shaped,
    similar,
    single_axes,
    tried,
    up_to,
)

COUNT = int(os.environ.get("RLX_DRAWN_CALLS", "2"))
MOST_DRAWS = 20 * COUNT
FLOATS, INEXACT = array("f4"), array("f4", "c8")
REALS, WHOLE = array(*REAL), array(*INTEGERS)
MATRICES = shaped((3, 3), (2, 3), (3, 2), (2, 3, 2), (1, 1), (3,), of=("f4", "c8"))
SQUARES = shaped((3, 3), (2, 2), (2, 3, 3), (2, 3), of=("f4", "c8"))
VECTORS = shaped((1,), (2,), (5,), of=REAL)
SHAPES = one_of((), (3,), (2, 3), (0, 2), 4)
SINGLES = shaped((1,), (1, 3), (3, 1, 1), (2, 1, 3), (1, 1), ())
FILLED = shaped((3,), (5,), (2, 3), (3, 1, 2), (1, 2, 2, 3), of=REAL)
SIGNALS, SOLIDS = ((5,), (2, 3), (3, 2), ()), ((5,), (2, 3), (3, 2, 4))
LENGTH, LENGTHS = one_of(None, 0, 1, 2, 4, 5), one_of((), (2,), (3,), (2, 3))
PLANES = one_of((0,), (-1,), (0, 1), (1, 0), (0, 2), (7,))


def positive(d: Draw, _: Given) -> Any:
    """Hermitian matrices without an eigenvalue of 0."""
    x = d.values(("f4", "c8"), d.one(((3, 3), (2, 3, 3))))
    return (x @ x.conj().swapaxes(-1, -2) + np.eye(3)).astype(x.dtype)


def contracted(d: Draw, given: Given) -> Any:
    """Pairs of axes to contract, and to keep together, of two arrays of one shape."""
    order = [int(a) for a in d.random.permutation(first(given).ndim)]
    together = d.small(0, len(order))
    last = d.small(together, len(order))
    return (order[together:last],) * 2, (order[:together],) * 2


def inside(d: Draw, given: Given) -> tuple[int, ...]:
    return tuple(d.small(0, extent) for extent in first(given).shape)


def ids(d: Draw, given: Given) -> Any:
    return d.random.integers(-1, 4, first(given).shape[:1]).astype("i4")


def broadcast(d: Draw, given: Given) -> Any:
    shape = first(given).shape
    return d.one(((2, *shape), shape, tuple(3 if e == 1 else e for e in shape), (2,)))


def placed(d: Draw, given: Given) -> Any:
    rank = first(given).ndim
    return d.one((tuple(range(rank)), tuple(range(1, rank + 1)), tuple(range(rank))[::-1]))


def taken(d: Draw, given: Given) -> Any:
    return np.zeros([d.one((1, e)) for e in first(given).shape], "i4")


def scores(dtype: str) -> Generator:
    """What broadcasts to the scores of attention."""

    def draw(d: Draw, given: Given) -> Any:
        queries, keys = given["query"].shape[1], given["key"].shape[1]
        return d.values((dtype,), (d.one((1, 2)), 1, queries, keys))

    return draw


def alike(words: str, own: Mapping[str, Generator]) -> dict[str, Mapping[str, Generator]]:
    return dict.fromkeys(words.split(), own)


REPEATS = one_of(0, 2, np.array([1, 2], "i4"), np.array([2], "i4"))
SPACED: dict[str, Generator] = {
    "start": one_of(1, 2.5, np.array([1, 2], "i4")), "num": one_of(1, 4), "axis": one_of(0, -1),
    "stop": one_of(3, np.array([[5, 7]], "f4")),
}  # fmt: skip
SPACE: dict[str, Generator] = {
    "lhs": shaped((2, 2, 5, 4), (1, 4, 6, 3), of=("f4",)),
    "rhs": shaped((4, 2, 2, 2), (2, 2, 3, 1), (4, 4, 1, 2), of=("f4",)),
    "padding": one_of("SAME", "VALID", "SAME_LOWER", ((1, 2), (0, -1)), ((0, 0), (2, 1))),
    **dict.fromkeys(("window_strides", "lhs_dilation", "rhs_dilation", "filter_shape"),
                    one_of((1, 1), (2, 1), (1, 2))), "feature_group_count": one_of(1, 2),
    "precision": one_of(None),
}  # fmt: skip
FUNCTIONS: dict[str, Mapping[str, Generator]] = {
    # Folds, running folds, order
    **alike("numpy.sum numpy.prod numpy.nansum numpy.nanprod numpy.any "
            "numpy.all numpy.count_nonzero numpy.flip numpy.expand_dims "
            "numpy.swapaxes numpy.diagonal numpy.ravel numpy.reshape numpy.fft.fftshift "
            "numpy.fft.ifftshift numpy.linalg.matrix_transpose", {}),
    **alike("numpy.mean numpy.nanmean", {"dtype": one_of("float32", "complex64", "float16")}),
    **alike("numpy.max numpy.min numpy.ptp numpy.nanmax numpy.nanmin",
            {"a": REALS}),
    **alike("numpy.argmax numpy.argmin numpy.nanargmax numpy.nanargmin",
            {"a": REALS, "axis": axis_or_none}),
    **alike("numpy.var numpy.std numpy.nanvar numpy.nanstd", {"a": INEXACT, "dtype": one_of(None)}),
    **alike("numpy.cumsum numpy.cumprod numpy.nancumsum numpy.nancumprod", {"axis": axis_or_none}),
    **alike("numpy.median numpy.nanmedian", {"a": FILLED}),
    **alike("numpy.quantile numpy.nanquantile", {
        "a": FILLED, "q": one_of(0.25, 1.0, np.array([0.1, 1], "f4")),
        "method": one_of("linear", "lower", "higher", "nearest", "midpoint")}),
    "numpy.sort": {"a": REALS, "order": one_of(None), "axis": axis_or_none},
    "numpy.argsort": {"a": REALS, "order": one_of(None), "dtype": one_of("int32", "uint8"),
                      "axis": axis_or_none},
    "numpy.searchsorted": {"a": lambda d, _: np.sort(d.values(REAL, (d.small(0, 5),))), "v": REALS},
    "numpy.average": {"weights": like("f4")}, "numpy.round": {"a": INEXACT},
    # Shapes
    "numpy.squeeze": {"a": SINGLES, "axis": single_axes},
    "lax.squeeze": {"array": SINGLES, "dimensions": single_axes},
    **alike("numpy.moveaxis", {}), **alike("numpy.transpose numpy.permute_dims", {
        "axes": permutation}),
    **alike("numpy.concatenate", {"arrays": several, "axis": axis_or_none}),
    **alike("numpy.stack", {"arrays": several, "axis": axis}),
    **alike("numpy.hstack numpy.vstack numpy.dstack numpy.column_stack",
            {"tup": several, "dtype": one_of(None)}),
    "numpy.roll": {"shift": one_of(1, -2, 7), "axis": axis_or_none},
    "numpy.rot90": {"m": array(ranks=(2, 4)), "axes": one_of((0, 1), (1, 0), (-1, 0), (0, 0))},
    "numpy.repeat": {"repeats": REPEATS, "axis": axis, "total_repeat_length": one_of(4, 7)},
    "numpy.tile": {"A": array(ranks=(0, 2)), "reps": one_of(2, (2, 1), (1, 2, 2), ())},
    "numpy.broadcast_to": {"shape": broadcast}, "numpy.unstack": {"axis": axis},
    **alike("numpy.split numpy.array_split", {"ary": array(ranks=(1, 3)), "axis": axis,
                                              "indices_or_sections": one_of(1, 2, 3, [1, 2])}),
    "numpy.pad": {"array": array(ranks=(1, 3)), "pad_width": one_of(1, (1, 2), 0, ((1, 0),)),
                  "mode": one_of("constant", "edge", "reflect", "symmetric", "wrap"),
                  "kwargs": one_of(())},
    **alike("numpy.tril numpy.triu", {"m": array(ranks=(2, 4))}),
    "numpy.trace": {"a": array(ranks=(2, 4)), "dtype": one_of(None)},
    "numpy.diff": {"a": array("i4", "f4"), "n": up_to(3, -1), "axis": axis, "prepend": one_of(1),
                   "append": one_of(0)},
    # Places
    "numpy.take": {"axis": axis_or_none},
    "numpy.take_along_axis": {"indices": taken, "axis": axis},
    **alike("numpy.nonzero numpy.flatnonzero", {"a": array(ranks=(1, 3)),
                                                "fill_value": up_to(3)}),
    "numpy.unique": {"ar": array(*REAL, ranks=(1, 2)), "axis": one_of(None)},
    "numpy.where": {"condition": array("?"), "x": Always(similar()), "y": Always(similar())},
    "numpy.clip": {"arr": Always(REALS), "min": one_of(-1, 0, None), "max": one_of(1, 2.5, None)},
    # Made from numbers
    **alike("numpy.zeros numpy.ones", {"shape": SHAPES}),
    **alike("numpy.zeros_like numpy.ones_like", {"shape": SHAPES}),
    "numpy.full": {"shape": SHAPES, "fill_value": one_of(1, 2.5, True, 1j)},
    "numpy.full_like": {"shape": SHAPES, "fill_value": one_of(1, 2, True)},
    "numpy.arange": {"start": one_of(0, 1, -3, 2.5), "stop": one_of(4, 7.5, -2),
                     "step": one_of(1, 2, -1, 0.5)},
    "numpy.linspace": {**SPACED, "dtype": one_of("int32", "float32")},
    "numpy.logspace": {**SPACED, "dtype": one_of("float32")},
    "numpy.eye": {"N": up_to(3), "M": up_to(4)}, "numpy.tri": {"N": up_to(3), "M": up_to(4)},
    "numpy.indices": {"dimensions": one_of((2, 3), (0, 2), (3,))},
    # Products
    "numpy.tensordot": {"a": INEXACT, "b": like(), "axes": one_of(0, 1, 2, ([0], [0]), (-1, -1),
                                                               ([0, 1], [0, 1]), 3)},
    "numpy.matmul": {"a": shaped((3, 3), (2, 3, 3), (3,), (2, 3), of=("f4", "i4", "c8")),
                     "b": shaped((3, 3), (3,), (3, 2), (2, 3, 1), of=("f4", "i4", "c8"))},
    "numpy.linalg.vecdot": {"x1": shaped((3,), (2, 3), (3, 2)), "x2": like("f4"), "axis": axis},
    "lax.dot_general": {"lhs": INEXACT, "rhs": like(), "dimension_numbers": contracted},
    "lax.conv_general_dilated": SPACE, "lax.conv_general_dilated_patches": SPACE,
    # Matrices
    "numpy.linalg.norm": {"x": INEXACT, "ord": one_of(None, "fro", "nuc", 1, 2, -1, -2, np.inf,
                                                      -np.inf, 0, 3, 0.5)},
    "numpy.linalg.vector_norm": {"x": array("f4", "c8", ranks=(1, 4)),
                                 "ord": one_of(2, 1, -1, -2, np.inf, -np.inf, 0, 3, 0.5)},
    "numpy.linalg.matrix_norm": {"x": array("f4", "c8", ranks=(1, 4)),
                                 "ord": one_of("fro", "nuc", 1, 2, -1, -2, np.inf, -np.inf, 3)},
    "numpy.linalg.cond": {"x": SQUARES, "p": one_of(None, 2, -2, "fro", "nuc", 1, -1, np.inf)},
    "numpy.linalg.matrix_rank": {"M": MATRICES, "rtol": one_of(1e-3, 0.5)},
    "numpy.linalg.pinv": {"a": MATRICES, "rtol": one_of(1e-3), "rcond": one_of(1e-3, 0.5)},
    "numpy.linalg.matrix_power": {"a": shaped((3, 3), (2, 2, 2), (2, 3), of=("f4", "i4"))},
    "numpy.linalg.qr": {"a": MATRICES, "mode": one_of("reduced", "complete", "r", "other")},
    "numpy.linalg.svd": {"a": MATRICES}, "numpy.linalg.cholesky": {"a": positive, "upper": FLAG},
    "numpy.linalg.eigvalsh": {"a": positive, "UPLO": one_of("L", "U")},
    "numpy.linalg.eigh": {"a": positive, "UPLO": one_of("L", "U")},
    # Spectra
    **alike("numpy.fft.fft numpy.fft.ifft numpy.fft.hfft numpy.fft.irfft", {
        "a": shaped(*SIGNALS, of=("f4", "c8", "i4")), "n": LENGTH, "axis": axis}),
    **alike("numpy.fft.rfft numpy.fft.ihfft", {
        "a": shaped(*SIGNALS, of=("f4", "f4", "c8", "i4")), "n": LENGTH, "axis": axis}),
    **alike("numpy.fft.fftn numpy.fft.ifftn numpy.fft.irfftn", {
        "a": shaped(*SOLIDS, of=("f4", "c8")), "s": LENGTHS, "axes": PLANES}),
    "numpy.fft.rfftn": {"a": shaped(*SOLIDS, of=("f4", "f4", "c8")), "s": LENGTHS, "axes": PLANES},
    # Networks
    "nn.one_hot": {"x": WHOLE, "num_classes": up_to(4), "axis": axis},
    **alike("nn.softmax nn.log_softmax nn.logmeanexp", {"x": FLOATS}),
    "nn.logsumexp": {"a": FLOATS, "b": similar("f4")}, "nn.glu": {
        "x": shaped((2,), (4, 3), (2, 4), (3, 2, 6), (3,), of=("f4",)), "axis": axis},
    "nn.standardize": {
        "x": FLOATS, "mean": one_of(0.5), "epsilon": one_of(1e-3), "algorithm": one_of("stable")},
    "nn.gelu": {"x": FLOATS},
    "nn.dot_product_attention": {
        "query": shaped((2, 3, 4, 2), (2, 3, 2, 2), of=("f4",)), "bias": scores("f4"),
        "key": shaped((2, 3, 2, 2), (2, 5, 2, 2), (2, 2, 2, 2), of=("f4",)),
        "value": lambda d, given: d.values(("f4",), given["key"].shape), "mask": scores("?"),
        "scale": one_of(0.5), "is_causal": FLAG, "local_window_size": one_of(1, (2, 0), (0, 1)),
        **dict.fromkeys(("query_seq_lengths", "key_value_seq_lengths"),
                        one_of(np.array([1, 2], "i4")))},
    **alike("ops.segment_sum ops.segment_prod ops.segment_max ops.segment_min", {
        "data": array(*REAL, ranks=(1, 3)), "segment_ids": ids, "num_segments": one_of(2, 5)}),
    # lax
    **alike("lax.cumsum lax.cumprod", {"axis": axis_from_the_front}),
    **alike("lax.cummax lax.cummin", {"operand": REALS, "axis": axis_from_the_front}),
    "lax.cumlogsumexp": {"operand": FLOATS, "axis": axis_from_the_front},
    **alike("lax.reduce_sum lax.reduce_prod", {"axes": axes_from_the_front}),
    **alike("lax.argmax lax.argmin", {"operand": REALS, "axis": axis_from_the_front,
                                      "index_dtype": one_of("int32", "uint8")}),
    **alike("lax.transpose lax.rev", {}),
    "lax.expand_dims": {"dimensions": one_of((0,), (0, -1), (1, 0), (9,), (0, 0), ())},
    "lax.broadcast": {"sizes": one_of((), (2,), (2, 1))},
    "lax.broadcast_in_dim": {"shape": broadcast, "broadcast_dimensions": placed},
    "lax.pad": {"operand": FLOATS, "padding_value": one_of(np.float32(1)), "padding_config": each(
        one_of((0, 0, 0), (1, 2, 0), (-1, 1, 1), (2, -1, 0), (0, 0, 2)))},
    "lax.slice": {"start_indices": inside, "limit_indices": inside, "strides": each(up_to(2, 1))},
    "lax.slice_in_dim": {"start_index": one_of(0, 1, -1, None), "stride": up_to(2, 1),
                         "limit_index": one_of(1, 2, -1, None), "axis": axis},
    "lax.dynamic_slice": {"start_indices": each(up_to(6, -6)), "slice_sizes": inside},
    "lax.dynamic_slice_in_dim": {"start_index": up_to(6, -6), "slice_size": up_to(3), "axis": axis},
    "lax.dynamic_index_in_dim": {"index": up_to(6, -6), "axis": axis},
    "lax.dynamic_update_slice_in_dim": {"operand": FLOATS, "update": like(),
                                        "start_index": up_to(3, -3), "axis": axis},
    "lax.select_n": {"which": shaped((2, 3), of=("?",)), "cases": lambda d, _: [
        d.values(("f4",), (2, 3)) for _unused in range(d.small(1, 3))]},
    "lax.clamp": {"min": one_of(np.float32(-1)), "x": FLOATS, "max": one_of(np.float32(1))},
    "lax.sort": {"operand": array(*REAL, ranks=(1, 4)), "dimension": axis,
                 "num_keys": one_of(1, 2)},
    "lax.top_k": {"operand": array(*REAL, ranks=(1, 3)), "k": up_to(4), "axis": axis},
    "lax.reshape": {"new_sizes": one_of((6,), (3, 2), (2, 3), (1, 6)), "dimensions": permutation,
                    "operand": shaped((2, 3), (6,), (1, 2, 3))},
    "lax.reduce_precision": {"operand": FLOATS, "exponent_bits": one_of(4, 5, 8),
                             "mantissa_bits": one_of(2, 10)},
    "lax.round": {"x": FLOATS, "rounding_method": one_of(0, 1)},
    "lax.collapse": {"start_dimension": up_to(2, -2), "stop_dimension": one_of(1, 2, 3)},
    "lax.tile": {"reps": each(up_to(2))},
    "lax.split": {"sizes": one_of((1, 2), (3,), (1, 1, 1), (2,)), "axis": axis_from_the_front},
}  # fmt: skip
FACTORS = {"numpy.linalg.qr", "numpy.linalg.svd", "numpy.linalg.eigh"}
"""Whose signs are another matter: dtypes and shapes are compared here, values by products."""

OURS_REFUSES = {
    "": "does not convert to|dtype c64; it must|dtype bool; it must|does not fit|no meaning here",
    "numpy.fft": "it needs at least one",
    "numpy.linalg.cond": "cond by the norm",
}
THEIRS_REFUSES = {
    "": "does not accept dtype|must have (a )?floating|same dtypes",
}
"""Messages of what only one refuses, by prefixes of names: `jax_differences.md` says why."""


@pytest.fixture(autouse=True)
def narrow() -> Iterator[None]:
    """Both without 64 bits, as JAX is by default."""
    with pytest.importorskip("jax").enable_x64(False), rlx.jax.enable_x64(False):
        yield


def is_stated(table: Mapping[str, str], name: str, error: Exception) -> bool:
    return any(name.startswith(key) and re.search(says, str(error)) for key, says in table.items())


def compared(name: str, seed: int) -> tuple[bool, str | None]:
    """Say whether JAX accepts a call that is drawn, and how ours differs."""
    theirs = attrgetter(name)(pytest.importorskip("jax"))
    draw = Draw(np.random.default_rng([seed, *name.encode()]))
    args, how = call(draw, theirs, FUNCTIONS[name])
    expected, refused = tried(lambda: theirs(*args, **how))
    found, error = tried(lambda: attrgetter(name)(rlx.jax)(*args, **how))
    if error is not None and not isinstance(error, RlxError | TypeError):
        what: str | None = f"an error without a type: {error!r}"
    elif refused is not None:
        is_open = error is not None or is_stated(THEIRS_REFUSES, name, refused)
        what = None if is_open else f"{found}, where JAX has {refused!r:.200}"
    elif error is not None:
        what = None if is_stated(OURS_REFUSES, name, error) else repr(error)
    else:
        what = difference(found, expected, values=name not in FACTORS)
    return refused is None, what and f"{name}(*{args}, **{how}): {what}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_drawn_calls_are_jaxs(name: str) -> None:
    accepted, different = 0, []
    for seed in range(MOST_DRAWS):
        is_accepted, what = compared(name, seed)
        different += [what] if what else []
        accepted += is_accepted
        if accepted == COUNT:
            break
    assert not different
    assert accepted == COUNT, f"JAX refuses all of {MOST_DRAWS} calls but {accepted}"

"""What single functions take that others do not, and what is not drawn, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.fuzz.draws.library_parameters import (
    _IMAGE,
    _KERNEL,
    _MATRIX,
    _PADS,
    _PAIRS,
    _SHAPES,
    _SIGNAL,
    _SQUARE,
    FLOATS,
    INEXACT,
    REAL,
    alike,
    array,
    broadcast,
    contracted,
    inner_block,
    like,
    of_first,
    per,
    positive,
    shaped,
    similar,
    single_axes,
    sorted_vector,
    taken,
    text,
    within,
)
from tests.jax.drawn import FLAG, Always, Generator, axes_from_the_front, axis, each, one_of, up_to

Own = Mapping[str, Generator]

NOT_DRAWN: Mapping[str, str] = {
    **alike(
        "np.array_repr np.array_str np.broadcast_shapes np.can_cast np.finfo np.get_printoptions "
        "np.isdtype np.issubdtype np.printoptions np.promote_types np.result_type "
        "np.set_printoptions np.size np.iinfo np.ndim np.shape np.iscomplexobj np.isrealobj "
        "np.isscalar np.iterable lax.axis_size lax.create_token "
        "lax.after_all lax.conv_dimension_numbers lax.conv_general_permutations "
        "lax.conv_general_shape_tuple lax.conv_shape_tuple lax.padtype_to_pads "
        "lax.reduce_window_shape_tuple lax.dce_sink "
        "nn.initializers.fans np.array_equal np.array_equiv lax.broadcast_shapes",
        "returns no array",
    ),
    **alike(
        "lax.all_gather lax.all_to_all lax.axis_index lax.pbroadcast lax.pmax lax.pmean lax.pmin "
        "lax.ppermute lax.pshuffle lax.psum lax.psum_scatter lax.pvary lax.pswapaxes "
        "lax.with_sharding_constraint",
        "needs an axis with a name: drawn by `ranks`",
    ),
    **alike(
        "scipy.fft.opposite np.fft.dtype_of np.fft.require_device np.fft.opposite "
        "np.linalg.squares "
        "lax.linalg.lu_with_order lax.linalg.permutation_of "
        "lax.linalg.pivoted_qr",
        "a part of other functions, without a documented meaning",
    ),
    **alike(
        "np.from_dlpack np.frombuffer np.fromiter np.fromstring",
        "reads no array: memory, files and texts",
    ),
    **alike(
        "lax.scan lax.while_loop lax.fori_loop lax.cond lax.switch lax.map lax.associative_scan "
        "lax.custom_linear_solve lax.custom_root lax.composite lax.platform_dependent "
        "np.apply_over_axes np.piecewise lax.reduce "
        "scipy.optimize.minimize scipy.optimize.value_and_grad scipy.linalg.funm "
        "lax.linalg.scan scipy.optimize.while_loop "
        "lax.stop_gradient",
        "takes functions: drawn by programs of lines, `symbolic` and `callbacks`",
    ),
    **alike(
        "np.getitem np.index_add np.index_set np.index_change lax.gather lax.scatter "
        "lax.scatter_add lax.scatter_apply lax.scatter_sub lax.scatter_mul lax.scatter_min "
        "lax.scatter_max",
        "takes indices: drawn by `indices`",
    ),
}
"""Public functions that this kind does not draw, by the reason."""

EXCUSED: Mapping[str, str] = {
    "device": "there is one device",
    "out": "refused: arrays are immutable",
    **alike("nan_policy extend select select_range sort subset_by_index subset_by_value "
            "orthogonalize transposed p_indices return_indices", "refused but for the default"),
    **alike("overwrite_input overwrite_x subok workers driver lapack_driver "
            "assume_unique_indices", "not read"),
    "np.argsort(kind)": "names of NumPy's algorithms",
    "_": "ignored", "lwork": "ignored",
    "blocksize": "ignored",
    "reduction_input_size_override": "a hint", "out_sharding": "refused",
    "group_offset": "refused unless None", "kwargs": "refused",
    "diff_n": "refused unless None",
    "optimize": "a hint",
    "freq_axis": "with time_axis", "time_axis": "with freq_axis",
    "max_iterations": "of an iteration",
}  # fmt: skip
"""Parameters with a default that are left at it, alone or as `function(parameter)`."""


_FOLD: Own = {"axis": axis}
_WEIGHTED: Own = {"a": array(*FLOATS, ranks=(1, 3)), "axis": axis}
_SPACE: Own = {"lhs": _IMAGE, "rhs": _KERNEL, "padding": _PADS}
_POOL: Own = {"x": _IMAGE, "padding": one_of("SAME", "VALID", ((1, 0), (0, 1)))}
_CHANNEL: Own = {"x": _IMAGE, "gamma": per(1), "beta": per(1)}
_SPECIAL: Own = {"x": array(*FLOATS)}
_SOLVE: Own = {"a": positive, "b": of_first(lambda d, x: d.values((x.dtype,), (*x.shape[:-1], 2)))}
_SIZED: Own = {
    **dict.fromkeys(("ar", "ar1", "ar2"), array(*REAL, ranks=(1, 2))),
    "size": up_to(7, 1),
}
_FOLDED_RANGE: Own = {"axis": one_of(0, -1), "start": one_of(1, 2.5, np.array([1, 2], "f4")),
                      "stop": one_of(3, np.array([[5, 7]], "f4"))}  # fmt: skip
_FROM_FRONT: Own = {"axis": of_first(lambda d, x: d.small(0, max(x.ndim - 1, 0)))}

FUNCTIONS: Mapping[str, Own] = {
    **alike("np.argmax np.argmin np.nanargmax np.nanargmin np.sort np.argsort np.cumsum np.cumprod "
            "np.nancumsum np.nancumprod np.cummax np.cummin np.cumlogsumexp np.cumulative_sum "
            "np.cumulative_prod np.partition np.argpartition np.diff np.unstack np.repeat np.stack "
            "np.insert np.delete np.append np.compress np.trapezoid np.lexsort "
            "np.vecdot np.swapaxes np.squeeze np.expand_dims np.top_k np.quantile np.roll "
            "np.nanquantile np.percentile np.nanpercentile np.cross np.apply_along_axis", _FOLD),
    **alike("np.quantile np.nanquantile", {**_WEIGHTED, "q": one_of(0.25, 1.0, np.array(
        [0.1, 1], "f4"))}),
    **alike("np.percentile np.nanpercentile", {**_WEIGHTED, "q": one_of(25, 100.0)}),
    **alike("np.median np.nanmedian", {"a": array(*FLOATS, ranks=(1, 3))}),
    "np.average": _WEIGHTED, "np.arange": {"device": one_of(None)},
    **alike("np.linspace np.logspace np.geomspace", _FOLDED_RANGE),
    "np.geomspace": {**_FOLDED_RANGE, "start": one_of(1, 2.5), "stop": one_of(3, 9.0)},
    "np.squeeze": {"a": shaped((1,), (1, 3), (3, 1, 1), (2, 1, 3)), "axis": single_axes},
    "lax.squeeze": {"array": shaped((1,), (1, 3), (1, 2, 3)), "dimensions": one_of((0,), (-1,))},
    "np.broadcast_to": {"shape": broadcast}, "lax.broadcast_in_dim": {"shape": broadcast},
    "lax.broadcast": {"sizes": one_of((), (2,), (2, 1))},
    "np.take_along_axis": {"indices": taken, "axis": axis, "mode": one_of("clip", "fill")},
    "np.put_along_axis": {"indices": taken, "axis": axis, "values": one_of(1, 2), "inplace":
                          one_of(False), "mode": one_of("clip", "fill")},
    "np.put": {"inplace": one_of(False), "v": one_of(1, 2), "mode": one_of("clip", "wrap")},
    "np.fill_diagonal": {"inplace": one_of(False), "a": array(ranks=(2, 2)), "val": one_of(3)},
    "np.choose": {
        "a": lambda d, _: d.random.integers(-1, 3, (3,)).astype("i4"),
        "choices": lambda d, _: [d.values(REAL, (3,)), d.values(REAL, (3,))],
        "mode": one_of("raise", "clip", "wrap"),
    },
    "np.interp": {"x": array("f4", "f8"), "left": one_of(0.0), "right": one_of(9.0)},
    "np.histogramdd": {"bins": one_of(2, 3), "range": one_of(None), "weights": one_of(None)},
    "np.histogram2d": {"x": shaped((5,)), "y": like(), "bins": one_of(2, 3), "range": one_of(None),
                       "weights": one_of(None)},
    **alike("np.histogram np.histogram_bin_edges", {"a": shaped((5,), (2, 3), of=("f4", "i4"))}),
    "np.bincount": {"x": lambda d, _: d.random.integers(0, 5, 6).astype("i4"),
                    "weights": one_of(None, np.arange(6.0, dtype="f4"))},
    "np.digitize": {"bins": sorted_vector}, "np.searchsorted": {
        "a": sorted_vector, "v": array(*REAL), "method": one_of("scan", "sort", "compare_all")},
    "np.ravel_multi_index": {"multi_index": lambda d, _: (
        d.random.integers(0, 4, 3).astype("i4"), d.random.integers(0, 4, 3).astype("i4")),
        "dims": one_of((3, 4), (2, 5)), "mode": one_of("raise", "clip", "wrap")},
    "np.unravel_index": {"indices": lambda d, _: d.random.integers(0, 12, 3).astype("i4"),
                         "shape": one_of((3, 4), (12,))},
    "np.einsum": {"subscripts": one_of("ij,ij->i", "ij,ij", "ij,ij->ji"), "arrays": lambda d, _: [
        d.values(INEXACT, (2, 3)), d.values(INEXACT, (2, 3))]},
    "np.select": {"condlist": lambda d, _: [d.values("?", (3,)), d.values("?", (3,))],
                  "choicelist": lambda d, _: [d.values(REAL, (3,)), d.values(REAL, (3,))]},
    "np.ix_": {"args": lambda d, _: [d.values(("i4",), (2,)), d.values(("i4",), (3,))]},
    "np.meshgrid": {"xi": lambda d, _: [d.values(REAL, (2,)), d.values(REAL, (3,))]},
    "np.block": {"arrays": lambda d, _: [[d.values(("f4",), (2, 2)), d.values(("f4",), (2, 1))]]},
    "np.indices": {"dimensions": one_of((2, 3), (0, 2), (3,))},
    "np.full": {"shape": _SHAPES}, "np.ones": {"shape": _SHAPES},
    "np.empty": {"shape": _SHAPES}, "np.pad": {"array": array(ranks=(1, 3)), "mode": one_of(
        "constant", "edge", "reflect", "symmetric", "wrap"), "kwargs": one_of({})},
    **alike("np.ones_like np.full_like np.empty_like lax.full_like", {
        "shape": _SHAPES}),
    **alike("np.unique np.union1d np.intersect1d np.setdiff1d np.setxor1d", _SIZED),
    **alike("np.nonzero np.flatnonzero np.argwhere", {"fill_value": up_to(3)}),
    "np.compress": {"condition": shaped((2,), (3,), of=("?",)), "a": array(ranks=(1, 2)),
                    "axis": axis, "size": up_to(4, 1)},
    "np.extract": {"condition": shaped((2, 3), of="?"), "arr": like("f4", "i4")},
    "np.where": {"x": similar(), "y": similar(), "condition": array("?"), "size": one_of(None)},
    "np.packbits": {"a": array("?", "u1"), "axis": axis}, "np.unpackbits": {
        "a": array("u1"), "axis": axis, "count": one_of(None, 3)},
    "np.cov": {"m": array("f4", "f8", ranks=(1, 2)), "y": one_of(None), "fweights": one_of(None),
               "aweights": one_of(None), "ddof": one_of(None, 0, 1)},
    "np.corrcoef": {"x": array("f4", "f8", ranks=(1, 2)), "y": one_of(None)},
    "np.rot90": {"m": array(ranks=(2, 4)), "axes": one_of((0, 1), (1, 0), (-1, 0))},
    "np.permute_dims": {"axes": of_first(lambda d, x: tuple(int(a) for a in d.random.permutation(
        x.ndim)))},
    "np.tensordot": {"b": like(), "axes": one_of(0, 1, 2, ([0], [0]), (-1, -1))},
    **alike("np.matmul np.dot np.inner np.vdot", {
        **dict.fromkeys("xa", shaped((3, 3), (2, 3, 3), (3,), of=("f4", "f8", "i4", "c8"))),
        **dict.fromkeys("yb", shaped((3, 3), (3,), of=("f4", "f8", "i4", "c8")))}),
    "np.matvec": {"x1": shaped((2, 3), (2, 2, 3)), "x2": shaped((3,))},
    "np.vecmat": {"x1": shaped((3,)), "x2": shaped((3, 2), (2, 3, 2))},
    "np.vecdot": {"x1": array(*INEXACT, ranks=(1, 3)), "x2": like(), "axis": axis},
    "np.cross": {"a": shaped((3,), (2, 3)), "b": shaped((3,), (2, 3)), "axis": one_of(-1)},
    "np.convolve": {"a": shaped((5,), (3,), of=REAL), "v": shaped((2,), (4,), of=REAL),
                    "mode": one_of("full", "same", "valid")},
    "np.correlate": {"a": shaped((5,), (3,), of=REAL), "v": shaped((2,), (4,), of=REAL),
                     "mode": one_of("full", "same", "valid")},
    **alike("np.bartlett np.blackman np.hamming np.hanning", {"M": up_to(6)}),
    "np.kaiser": {"M": up_to(6), "beta": one_of(0.0, 3.5)},
    **alike("np.poly np.roots np.trim_zeros", {
        "seq_of_zeros": shaped((2,), (3,)), "p": shaped((3,), (4,)), "filt": one_of([0, 1, 2, 0])}),
    **alike("np.polyadd np.polysub np.polymul np.polydiv", {
        "a1": shaped((3,), (2,)), "a2": shaped((3,), (1,)), "u": shaped((3,), (4,)),
        "v": shaped((2,), (1,))}),
    **alike("np.polyder np.polyint", {"p": shaped((3,), (4,)), "m": up_to(2), "k": one_of(0, 1)}),
    "np.polyval": {"p": shaped((3,), (1,))}, "np.vander": {"x": shaped((3,), (2,)), "N": up_to(4)},
    "np.apply_along_axis": {"func1d": text("lambda r: r[::-1]", "np.sum"), "args": one_of(()),
                            "kwargs": one_of({})},
    "np.fromfunction": {"shape": one_of((2, 3), (4, 1)), "kwargs": one_of({}),
                        "dtype": one_of("float32", "int32")},
    "np.gradient": {"f": array("f4", "f8", ranks=(1, 2)), "varargs": one_of((), (0.5,)),
                    "axis": one_of(0, -1)},
    "np.ldexp": {"exponent": similar("i4")}, "np.resize": {"new_shape": _SHAPES},
    "np.split": {"ary": array(ranks=(1, 3)), "axis": axis}, "np.array_split": {
        "ary": array(ranks=(1, 3)), "axis": axis},
    "np.tri": {"N": up_to(3)}, "np.diag": {"v": array(ranks=(1, 2))},
    "np.rollaxis": {"axis": axis, "start": one_of(0, 1)},
    "np.moveaxis": {"source": axis, "destination": axis},
    "np.dynamic_update_slice": {"update": inner_block}, "lax.dynamic_update_slice": {
        "update": inner_block},
    "np.isin": {"element": array(*REAL)}, "np.array": {"ndmin": one_of(0, 2)},
    "np.concat": {"axis": one_of(0, -1, None)},
    "np.take": {"mode": one_of("clip", "fill", "wrap")},
    # Matrices
    **alike("np.linalg.cholesky np.linalg.cho_factor np.linalg.inv np.linalg.eigh "
            "np.linalg.eigvalsh lax.linalg.cholesky lax.linalg.eigh scipy.linalg.cholesky "
            "scipy.linalg.eigh scipy.linalg.sqrtm scipy.linalg.polar", {
                "a": positive, "A": positive, "x": positive, "b": one_of(None)}),
    **alike("np.linalg.solve scipy.linalg.solve np.linalg.solve_triangular lax.linalg."
            "triangular_solve", {**_SOLVE, "assume_a": one_of(
                "gen", "sym", "her", "pos")}),
    **alike("np.linalg.cho_solve", {
        "c_and_lower": lambda _d, _: (np.eye(3, dtype="f4") * 2, True),
        "b": shaped((3, 2), (3,), of=("f4",))}),
    **alike("np.linalg.lu_solve", {
        "lu_and_piv": lambda _d, _: (np.eye(3, dtype="f4") * 2, np.array([0, 1, 2], "i4")),
        "b": shaped((3, 2), (3,), of=("f4",))}),
    **alike("np.linalg.svd np.linalg.svdvals np.linalg.qr np.linalg.pinv np.linalg.matrix_rank "
            "np.linalg.cond np.linalg.lu scipy.linalg.svd lax.linalg.svd lax.linalg.qr "
            "np.linalg.matrix_norm", {
            **dict.fromkeys("aAx", _MATRIX), "mode":
            one_of("reduced", "complete", "r"), "p": one_of(None, 2, -2, "fro", 1, -1, np.inf),
            "ord": one_of("fro", "nuc", 1, 2, -1, -2, np.inf)}),
    **alike("np.linalg.det np.linalg.slogdet np.linalg.expm np.linalg.eig np.linalg.eigvals "
            "np.linalg.matrix_power np.linalg.lu_factor scipy.linalg.schur "
            "scipy.linalg.hessenberg lax.linalg.schur lax.linalg.hessenberg lax.linalg.lu "
            "lax.linalg.eig", {
                **dict.fromkeys("aAx", _SQUARE), "n": up_to(3, -2)}),
    "np.linalg.lstsq": {"a": _MATRIX, "b": of_first(lambda d, x: d.values(
        (x.dtype,), (x.shape[-2], 2)))},
    "np.linalg.multi_dot": {"arrays": lambda d, _: [d.values(("f4",), s) for s in (
        (2, 3), (3, 4), (4, 2))]},
    "np.linalg.tensorinv": {"a": shaped((4, 2, 2), (4, 4)), "ind": one_of(1, 2)},
    "np.linalg.tensorsolve": {"a": shaped((2, 2, 4)), "b": shaped((2, 2)), "axes": one_of(None)},
    "np.linalg.norm": {"x": array(*INEXACT, ranks=(1, 3))},
    "np.linalg.vector_norm": {"x": array(*INEXACT, ranks=(1, 3)), "ord": one_of(2, 1, -1, np.inf, 0,
                                                                             3, 0.5)},
    "np.linalg.toeplitz": {"c": shaped((3,)), "r": one_of(None, np.array([1, 2], "f4"))},
    "np.linalg.block_diag": {"arrs": lambda d, _: [d.values(INEXACT, (2, 3)), d.values(
        INEXACT, (1, 2))]},
    "np.linalg.trace": {"x": array(ranks=(2, 3))}, "np.linalg.diagonal": {"x": array(ranks=(2, 3))},
    "scipy.linalg.expm_frechet": {"A": shaped((3, 3), of=("f4", "f8")), "E": like(), "method":
                                  one_of(None)},
    "scipy.linalg.solve_sylvester": {n: shaped((2, 2), of=("f4", "f8")) for n in "abq"},
    "scipy.linalg.eigh_tridiagonal": {"d": shaped((4,)), "e": shaped((3,))},
    "scipy.linalg.qr": {"a": shaped((3, 3), (2, 3), of=("f4", "f8")), "mode": one_of(
        "full", "r", "economic")},
    "scipy.linalg.qr_multiply": {"a": shaped((3, 3), of=("f4", "f8")), "c": like(),
                                 "mode": one_of("right", "left")},
    "scipy.linalg.rsf2csf": {"T": shaped((2, 2), of=("f4",)), "Z": shaped((2, 2), of=("f4",))},
    **alike("scipy.linalg.circulant scipy.linalg.companion scipy.linalg.fiedler "
            "scipy.linalg.fiedler_companion scipy.linalg.hankel", {
                "c": shaped((3,), (4,)), "a": shaped((3,), (4,)), "r": one_of(None)}),
    "scipy.linalg.convolution_matrix": {"a": shaped((3,)), "n": up_to(4, 1), "mode": one_of(
        "full", "same", "valid")},
    "scipy.linalg.leslie": {"f": shaped((3,)), "s": shaped((2,))},
    "scipy.linalg.hadamard": {"n": one_of(1, 2, 4)}, "scipy.linalg.dft": {
        "n": up_to(5, 1), "scale": one_of(None, "n", "sqrtn")},
    **alike("scipy.linalg.pascal scipy.linalg.invpascal", {"n": up_to(4, 1), "kind": one_of(
        "symmetric", "lower", "upper")}),
    "scipy.linalg.polar": {"a": positive, "side": one_of("left", "right"), "method": one_of("svd"),
                           "eps": one_of(None)},
    "scipy.linalg.sqrtm": {"A": positive, "a": positive},
    # Signals
    **alike("np.fft.fft np.fft.ifft np.fft.rfft np.fft.irfft np.fft.hfft np.fft.ihfft", {
        "a": _SIGNAL, "n": one_of(None, 1, 2, 4, 5), "axis": axis}),
    **alike("np.fft.fftn np.fft.ifftn np.fft.rfftn np.fft.irfftn np.fft.fft2 np.fft.ifft2 "
            "np.fft.rfft2 np.fft.irfft2 scipy.fft.hfft2 scipy.fft.hfftn scipy.fft.ihfft2 "
            "scipy.fft.ihfftn", {
                "a": shaped((2, 3), (3, 2, 4), of=INEXACT), "x": shaped((2, 3), (3, 2, 4),
                                                                        of=INEXACT),
                "s": one_of(None, (2, 3)), "axes": one_of((0, 1), (-2, -1), (1, 0))}),
    **alike("np.fft.fftfreq np.fft.rfftfreq", {"n": up_to(6, 1), "d": one_of(1.0, 0.5)}),
    **alike("scipy.fft.dct scipy.fft.idct", {"x": shaped((5,), (2, 3), of=("f4", "f8")), "type":
            one_of(1, 2, 3, 4), "n": one_of(None, 2, 4), "axis": axis,
            "norm": one_of(None, "ortho")}),
    **alike("scipy.fft.dctn scipy.fft.idctn", {"x": shaped((2, 3), of=("f4", "f8")), "type":
            one_of(2, 3), "s": one_of(None, (2, 3)), "axes": one_of(None, (0, 1)),
            "norm": one_of(None, "ortho")}),
    "lax.fft": {"x": shaped((4,), (2, 4), of=("c8",)), "fft_type": one_of("fft", "ifft"),
                "fft_lengths": one_of((4,))},
    **alike("scipy.signal.convolve scipy.signal.correlate scipy.signal.fftconvolve", {
        "in1": shaped((5,), (8,)), "in2": shaped((3,), (2,)), "mode": one_of(
            "full", "same", "valid"), "method": one_of("auto", "direct", "fft"),
        "axes": one_of(None)}),
    **alike("scipy.signal.convolve2d scipy.signal.correlate2d", {
        "in1": shaped((4, 5)), "in2": shaped((2, 3)), "mode": one_of("full", "same", "valid")}),
    **alike("scipy.signal.csd scipy.signal.welch scipy.signal.stft", {
        "x": shaped((16,), (2, 16), of=("f4", "f8")), "y": like(), "axis": one_of(-1),
        "detrend": one_of("constant", "linear", False), "boundary": one_of("zeros", None, "even"),
        "nperseg": one_of(None, 4, 8)}),
    "scipy.signal.istft": {"Zxx": shaped((5, 3), of=("c8",)), "boundary": FLAG, "nperseg": one_of(
        None, 8), "scaling": one_of("spectrum", "psd")},
    "scipy.signal.detrend": {"data": shaped((8,), (2, 6), of=("f4", "f8")), "axis": axis},
    "scipy.ndimage.map_coordinates": {
        "input": shaped((4, 5), of=("f4", "f8")), "coordinates": lambda d, _: [
            d.values(("f4",), (3,)), d.values(("f4",), (3,))], "order": one_of(0, 1),
        "mode": one_of("constant", "nearest", "wrap", "mirror", "reflect")},
    # Special functions
    "scipy.special.bernoulli": {"n": up_to(5)}, "scipy.special.bessel_jn": {
        "z": shaped((3,), of=("f4", "f8")), "v": up_to(3)},
    **alike("scipy.special.comb scipy.special.factorial scipy.special.poch", {
        "N": array(*FLOATS), "k": similar(*FLOATS), "n": array(*FLOATS), "z": array(*FLOATS),
        "m": similar(*FLOATS), "exact": one_of(False)}),
    "scipy.special.expn": {"n": up_to(4), "x": array(*FLOATS)},
    "scipy.special.sph_harm_y": {"n": shaped((2,), of=("i4",)), "m": shaped((2,), of=("i4",)),
                                 "theta": shaped((2,)), "phi": shaped((2,)),
                                 "n_max": Always(one_of(6))},
    "scipy.special.wofz": {"z": array("f4", "c8")},
    "lax.zeta": {"q": similar(*FLOATS)}, "scipy.special.multigammaln": {"d": one_of(1, 2)},
    **alike("lax.polygamma", {"n": up_to(3), "x": array(*FLOATS)}),
    **alike("scipy.special.hyp1f1 scipy.special.hyp2f1", {
        n: shaped((3,), (), of=("f4", "f8")) for n in ("a", "b", "c", "x", "z")}),
    **alike("nn.logsumexp scipy.special.logsumexp", {"a": array(*FLOATS), "b": similar("f4")}),
    "scipy.stats.mode": {"axis": axis}, "scipy.stats.rankdata": {
        "a": array(*REAL), "method": one_of("average", "min", "max", "dense", "ordinal"),
        "axis": axis},
    "scipy.stats.sem": {"a": array(*FLOATS), "axis": axis, "ddof": one_of(0, 1)},
    # lax
    **alike("lax.cumsum lax.cumprod lax.cummax lax.cummin lax.cumlogsumexp lax.argmax lax.argmin",
            _FROM_FRONT),
    **alike("lax.dot_general", {"lhs": array(*INEXACT), "rhs": like(), "dimension_numbers":
                                contracted}),
    **alike("lax.dot lax.batch_matmul", {"lhs": shaped((3, 3), (2, 3, 3)), "rhs": like()}),
    **alike("lax.conv_general_dilated lax.conv_general_dilated_patches lax.conv "
            "lax.conv_general_dilated_local lax.conv_with_general_padding lax.conv_transpose", {
                **_SPACE, "strides": _PAIRS}),
    "lax.ragged_dot": {"lhs": shaped((5, 3)), "rhs": shaped((2, 3, 4)), "group_sizes": one_of(
        np.array([2, 3], "i4"), np.array([1, 3], "i4"))},
    "lax.ragged_dot_general": {"lhs": shaped((5, 3)), "rhs": shaped((2, 3, 4)), "group_sizes":
        one_of(np.array([2, 3], "i4")), "ragged_dot_dimension_numbers": text(
            "lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))")},
    "lax.select": {"pred": array("?"), "on_true": like("f4", "i4"), "on_false": like("f4")},
    "lax.select_n": {"which": shaped((2, 3), of=("?", "i4")), "cases": lambda d, _: [
        d.values(("f4",), (2, 3)) for _unused in range(2)]},
    "lax.clamp": {"min": one_of(-1.0), "x": array(*REAL), "max": one_of(1.0)},
    "lax.split": {"operand": shaped((3,), (3, 2)), "sizes": one_of((1, 2), (3,), (1, 1, 1)),
                  "axis": one_of(0)},
    "lax.tile": {"reps": each(up_to(2))}, "lax.iota": {"size": up_to(5), "dtype": one_of(
        "int32", "float32", "uint8")},
    "lax.broadcasted_iota": {"shape": one_of((2, 3), (4,)), "dimension": one_of(0),
                             "dtype": one_of("int32", "float32")},
    "lax.full": {"shape": _SHAPES}, "lax.reduce_window": {
        "operand": array("f4", "i4", ranks=(1, 3)), "computation": text(
            "lax.add", "lax.max", "lax.min", "lax.mul"), "init_value": one_of(0, 1)},
    "lax.select_and_gather_add": {
        "tangents": shaped((4, 5), of=("f4",)), "operand": shaped((4, 5), of=("f4", "f8")),
        "window_dimensions": one_of((2, 2), (1, 3)), "window_strides": one_of((1, 1), (2, 1)),
        "padding": one_of("VALID", ((0, 0), (0, 0))), "base_dilation": one_of(None),
        "window_dilation": one_of(None),
    },
    "lax.select_and_scatter_add": {
        "source": shaped((3, 4), of=("f4",)), "operand": shaped((4, 5), of=("f4",)),
        "window_dimensions": one_of((2, 2)), "window_strides": one_of((1, 1)),
        "padding": one_of("VALID"),
    },
    **alike("lax.reduce_and lax.reduce_or lax.reduce_xor lax.reduce_max lax.reduce_min "
            "lax.reduce_sum lax.reduce_prod", {"axes": axes_from_the_front}),
    "lax.sort_key_val": {"keys": array(*REAL, ranks=(1, 3)), "values": like("f4", "i4"),
                         "dimension": one_of(-1, 0)},
    "lax.sort": {"dimension": axis}, "lax.index_take": {"src": array(ranks=(1, 3)),
                                                        "axes": one_of((0,))},
    "lax.slice_in_dim": {"start_index": one_of(0, 1, -1, None), "axis": axis},
    "lax.index_in_dim": {"index": up_to(3, -3), "axis": axis},
    "lax.dynamic_index_in_dim": {"index": up_to(6, -6), "axis": axis},
    "lax.dynamic_update_index_in_dim": {"update": inner_block, "index": up_to(3, -3),
                                        "axis": axis},
    "lax.dynamic_update_slice_in_dim": {"update": inner_block, "axis": axis},
    "lax.dynamic_slice_in_dim": {"axis": axis}, "lax.slice": {"strides": each(up_to(2, 1))},
    "lax.optimization_barrier": {"operand": array()},
    "lax.linalg.cholesky_update": {"r_matrix": shaped((3, 3), of=("f4",)),
                                    "w_vector": shaped((3,))},
    "lax.linalg.eig": {"x": _SQUARE, "compute_left_eigenvectors": FLAG,
                       "compute_right_eigenvectors": FLAG},
    **alike("lax.linalg.householder_product lax.linalg.ormqr", {
        "a": shaped((3, 2), of=("f4", "f8")), "taus": shaped((2,)), "transpose": FLAG,
        "c": shaped((3, 2)), "left": one_of(True)}),
    **alike("lax.linalg.lu_pivots_to_permutation", {
        "pivots": lambda _d, _: np.array([2, 1, 2], "i4"), "permutation_size": one_of(3, 4),
        "size": one_of(3), "rows": one_of(3)}),
    "lax.linalg.qdwh": {"x": positive, "is_hermitian": FLAG, "dynamic_shape": one_of(None),
                        "eps": one_of(None), "max_iterations": one_of(None)},
    "lax.linalg.schur": {"x": _SQUARE, "compute_schur_vectors": FLAG,
                         "sort_eig_vals": one_of(False), "select_callable": one_of(None)},
    "lax.linalg.symmetric_product": {"a_matrix": shaped((3, 2), of=("f4",)),
                                     "c_matrix": shaped((3, 3), of=("f4",)),
                                     "symmetrize_output": FLAG},
    "lax.linalg.triangular_solve": {**_SOLVE, "left_side": one_of(True), "transpose_a": FLAG,
                                    "conjugate_a": FLAG},
    "lax.linalg.tridiagonal_solve": {n: shaped((3,), of=("f4",)) for n in ("dl", "d", "du")} | {
        "b": shaped((3, 2), of=("f4",))},
    **alike("np.tril_indices np.triu_indices", {"m": one_of(None, 2, 4)}),
    "np.unwrap": {"axis": axis, "period": one_of(2.0)},
    "np.diag_indices": {"ndim": one_of(2, 3)}, "np.polyfit": {
        "x": shaped((5,), of=("f4", "f8")), "y": like(), "w": one_of(None), "full": one_of(False),
        "cov": one_of(False)},
    "scipy.special.owens_t": {"h": array(*FLOATS), "a": similar(*FLOATS)},
    "lax.random_gamma_grad": {"a": shaped((3,)), "sample": shaped((3,))},
    "lax.shape_as_value": {"shape": one_of((2, 3), ())},
    "lax.expand_dims": {"dimensions": one_of((0,), (0, -1), ())},
    "lax.approx_max_k": {"operand": array(*FLOATS, ranks=(1, 2)), "k": up_to(3, 1)},
    "lax.approx_min_k": {"operand": array(*FLOATS, ranks=(1, 2)), "k": up_to(3, 1)},
    "lax.bitcast_convert_type": {"new_dtype": one_of("int32", "float32", "uint8", "int16")},
    "lax.shift_right_logical": {"x": array("i4", "u1"), "y": similar("i4", "u1")},
    # Networks
    **alike("nn.avg_pool nn.max_pool nn.min_pool", _POOL),
    **alike("nn.batch_norm nn.group_norm nn.instance_norm", {
        **_CHANNEL, "mean": per(1), "variance": of_first(lambda d, x: np.abs(d.values(
            (x.dtype,), x.shape[1:2])) + np.asarray(1, x.dtype))}),
    **alike("nn.conv nn.conv_transpose", {"x": _IMAGE, "w": _KERNEL, "padding": _PADS, "bias":
            one_of(None), "strides": one_of(1, 2, (2, 1)), "output_padding": one_of(0, 1)}),
    **alike("nn.layer_norm nn.rms_norm", {"x": array(*FLOATS, ranks=(1, 3)), "gamma": of_first(
        lambda d, x: d.values((x.dtype,), x.shape[-1:])), "beta": of_first(
            lambda d, x: d.values((x.dtype,), x.shape[-1:])), "axis": one_of(-1)}),
    "nn.dot_product_attention": {"query": shaped((2, 3, 4), (1, 2, 3, 4)), "key": like(),
                                 "value": like(), "bias": one_of(None), "mask": one_of(
                                     None, np.tri(3, dtype=bool)), "scale": one_of(None, 0.5)},
    "nn.dropout": {"x": array(*FLOATS), "key_or_mask": text("rlx.random.key(3)")},
    "nn.embedding": {"indices": within}, "nn.fake_quantize": {"x": array("f4"), "axis": axis,
                                                             "scale": one_of(None, 0.5)},
    "nn.fake_quantize_ema": {"x": array("f4"), "axis": one_of(None),
                             "state": shaped((1,), of=("f4",))},
    "nn.fake_quantize_lsq": {"x": array("f4"), "scale": one_of(np.array([0.5], "f4")),
                             "axis": one_of(None)},
    "nn.one_hot": {"labels": array("i4", "u1"), "dtype": one_of("f32", "f64")},
    "nn.huber": {"predictions": array(*FLOATS)},
    "nn.pixel_shuffle": {"x": shaped((1, 4, 2, 3))},
    "nn.pixel_unshuffle": {"x": shaped((1, 2, 2, 4))},
    "nn.resize": {"x": _IMAGE, "size": one_of((3, 5), (4, 2)), "scale": one_of(None), "method":
                  one_of("linear", "nearest", "cubic")},
    **alike("nn.global_avg_pool nn.global_max_pool", {"x": _IMAGE}),
    "nn.softmax_cross_entropy": {"logits": array(*FLOATS, ranks=(1, 3))},
    "nn.sigmoid_cross_entropy": {"labels": like()},
    **alike("nn.initializers.glorot_normal nn.initializers.glorot_uniform "
            "nn.initializers.he_normal nn.initializers.he_uniform nn.initializers.normal "
            "nn.initializers.uniform nn.initializers.ones nn.initializers.zeros", {
                "shape": one_of((2, 3), (4, 2, 3)), "dtype": one_of("f32", "f64")}),
}  # fmt: skip

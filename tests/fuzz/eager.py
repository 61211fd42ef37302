"""Calls outside `jit` as a back end: their bits are those of compiled code, but for listed ops.

A call outside `jit` is interpreted by NumPy. Where the bits of a result are others than those of
compiled code, some op of the program is in `REASONS`; the numbers agree within roundings anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rlx.errors import RlxError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node
from tests.fuzz.program import Array

FUNCTION = "NumPy and the kernel approximate the function; both are within its bound"
ORDER = "terms are added or multiplied in another order: lanes and tiles, NumPy's pairs, BLAS"
LAPACK = "LAPACK's blocks and pivots; a kernel takes one row after the other"
MULTIPLY_ADD = "NumPy fuses the products of complex numbers with their sums; kernels never do"

_OPS: Mapping[str, str] = {
    FUNCTION: "acos acosh asin asinh atan atan2 atanh cos cosh elu erf erf_inv erfc "
    "exp exp2 expm1 gelu gelu_approx log log1p log2 log_sigmoid mish "
    "pow root_of_powers selu sigmoid silu sin sinh softplus tan tanh fake_quantize_backward",
    ORDER: "attention attention_backward batch_norm_training col2im conv conv_backward_input "
    "conv_backward_weight conv_transpose cumprod cumsum dequant_matmul dft dft_of_prime "
    "dft_of_reals dft_to_reals dot_general fake_quantize_lsq_backward_scale fft "
    "gaussian_splat_prepare gaussian_splat_rasterize gaussian_splat_render "
    "gaussian_splat_render_backward group_norm grouped_dequant_matmul grouped_matmul "
    "instance_norm irfft layer_norm layer_norm2d log_mel log_softmax logsumexp matmul "
    "max_pool_backward mean_pool "
    "prod_pool ragged_matmul ragged_outer reduce_mean reduce_prod reduce_sum rfft rms_norm softmax "
    "softmax_cross_entropy_backward softmax_cross_entropy_with_logits splat_coefficients "
    "splat_composite splat_composite_backward splat_project splat_project_backward sum_pool "
    "scatter_add scatter_mul",
    LAPACK: "det eig eigh least_squares pseudo_inverse qr schur slogdet svd",
}
_OF_COMPLEX = (
    "cholesky div inv lu mul reciprocal rectangular_lu rsqrt solve solve_backward sqrt "
    "triangular_solve"
)
_FOLDS = (
    "cummax cummin max_pool maximum min_pool minimum reduce_max reduce_min scatter_max scatter_min"
)
REASONS: Mapping[str, str] = {op: reason for reason, ops in _OPS.items() for op in ops.split()}
"""Why the bits of an op are others compiled, by its name."""
COMPLEX_REASONS: Mapping[str, str] = dict.fromkeys(_OF_COMPLEX.split(), MULTIPLY_ADD)
"""The same for complex numbers alone."""
EITHER_ZERO = frozenset(_FOLDS.split())
"""Ops that may choose any of zeros of both signs, which `ir/ops/reduction.py` states."""


def unexplained(
    graph: Graph, eager: Sequence[Array] | RlxError, compiled: Sequence[Array] | RlxError
) -> str:
    """Say where bits differ without a reason; an empty text if nowhere."""
    if isinstance(eager, RlxError) or isinstance(compiled, RlxError):
        return ""  # compared by their classes
    nodes = list(_nodes(graph))
    if any(reason(node) for node in nodes):
        return ""
    signed = not any(node.op.name in EITHER_ZERO for node in nodes)
    for number, (x, y) in enumerate(zip(eager, compiled, strict=True)):
        if not same_bits(x, y, signed=signed):
            names = ", ".join(sorted({node.op.name for node in nodes}))
            return f"output {number} is {x.tolist()!r:.300}, compiled {y.tolist()!r:.300}: {names}"
    return ""


def reason(node: Node) -> str | None:
    """Return why the bits of a node's results may be others compiled."""
    types = [value.type.dtype for value in (*node.operands, *node.results)]
    if any(dtype in (DType.C64, DType.C128) for dtype in types):
        found = COMPLEX_REASONS.get(node.op.name)
        if found is not None:
            return found
    return REASONS.get(node.op.name)


def _nodes(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph, and those of bodies."""
    for node in graph.nodes:
        yield node
        for attribute in node.attrs.as_dict().values():
            for each in attribute if isinstance(attribute, tuple) else (attribute,):
                if isinstance(each, Graph):
                    yield from _nodes(each)


def same_bits(x: Array, y: Array, *, signed: bool = True) -> bool:
    """True for arrays of the same numbers and signs of zeros; any NaN is the other."""
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    if x.dtype.kind == "c":
        pairs = ((x.real, y.real), (x.imag, y.imag))
        return all(same_bits(a, b, signed=signed) for a, b in pairs)
    if x.dtype.kind in "biu":
        return bool(np.array_equal(x, y))
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    same = (a == b) & (np.signbit(a) == np.signbit(b)) if signed else a == b
    return bool(np.all(same | (np.isnan(a) & np.isnan(b))))

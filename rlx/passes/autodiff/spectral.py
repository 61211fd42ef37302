"""Functions of a matrix by its eigenvalues or singular values, where these are equal.

    (v * h) @ v.T    ->    custom_derivative of it, by a, v, h and divided differences

With `w, v = eigh(a)` and `m = v.T da v`, the derivative of `b = v diag(h(w)) v.T` is
`v (d * m) v.T` with the divided differences `d_ij = (h_j - h_i) / (w_j - w_i)` (Daleckii and
Krein, 1951). The rule of `eigh` divides by `w_j - w_i` alone, and what it gives for equal values is
not finite. Here the quotient is extended by its limit: if `h` changes by `s` as `w` changes by
`t`, with `v` as it is, then `(h_j - h_i) / (w_j - w_i)` is `(s_j - s_i) / (t_j - t_i)` where
values are equal. `h` is any function of all values that treats them alike, as the gradient of a
symmetric function of them does, so that second derivatives of those are right, too.

For `u, s, v.T = svd(a)` and `b = u diag(h) v.T` the symmetric part of `m = u.T da v` has such
quotients, and the antisymmetric one those of sums, `(h_j + h_i) / (s_j + s_i)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OpDef
from rlx.ir.reference import evaluate
from rlx.ir.shape import Shape
from rlx.ir.types import TensorType
from rlx.passes.autodiff.algebra import expand_to, full, reshape_to, swap_last, zeros
from rlx.passes.autodiff.rules.decompositions import (
    column_of,
    diagonal_mask,
    resolved,
    rounding_of,
    row_of,
    symmetric_tangent,
)
from rlx.passes.autodiff.sweep import jvp_in_graph
from rlx.passes.rewrite import Rewritten, copy_node, graph_pass, unchanged
from rlx.passes.rewrite import finish as finish_graph

_PLACING: frozenset[OpDef] = frozenset({
    ops.pad, ops.reshape, ops.narrow, ops.concat, ops.expand, ops.where, ops.transpose, ops.mul,
})  # fmt: skip
"""Ops that put the elements of a vector on the diagonal of a matrix."""
_LARGEST_DIAGONAL = 512
"""Matrices above this extent are not evaluated to see whether they are diagonal."""


@graph_pass
def spectral_functions(graph: Graph) -> Rewritten:
    """Give products `v diag(h) v.T` of one decomposition's vectors custom derivatives."""
    if not any(node.op in (ops.eigh, ops.svd) for node in graph.nodes):
        return unchanged(graph)
    stated = {node.operands[0] for node in graph.nodes if node.op is ops.custom_derivative}
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        results = copy_node(target, node, value_map)
        if node.op is ops.matmul and node.result not in stated:
            with target.attributed(node.source, node.scope):
                found = _stated(results[0])
            if found is not None:
                value_map[node.result] = found
    finish_graph(target, graph, value_map)
    return Rewritten(target, value_map)


@dataclass(frozen=True)
class _Factor:
    """Vectors of a decomposition, each times the numbers that `scales` and `inner` hold.

    Of `part`, the first and the number of those taken, `scales` has a number for each.
    """

    vectors: Value
    scales: tuple[Value, ...] = ()
    part: tuple[int, int] | None = None
    inner: tuple[Value, ...] = ()


def _stated(product: Value) -> Value | None:
    """Return `product` with its derivative stated if it is one of vectors with their own."""
    left, right = _factor(product.node.operands[0], -1), _factor(product.node.operands[1], -2)
    if left is None or right is None or left.part != right.part or product.dtype.is_complex:
        return None
    node = left.vectors.node
    if node is not right.vectors.node:
        return None
    numbers = node.results[0 if node.op is ops.eigh else 1]
    if node.op is ops.eigh:
        h = _weights(left, right, numbers, product.shape[:-2])
        return None if h is None else _of_eigh(product, node, h)
    rows, columns = node.operands[0].shape[-2:]
    if left.vectors is right.vectors or (node.attribute("full") and rows != columns):
        return None
    h = _weights(left, right, numbers, product.shape[:-2])
    if h is None:
        return None
    if left.vectors is node.results[0]:
        return _of_svd(product, node, h)
    return swap_last(_of_svd(swap_last(product), node, h))


def _factor(x: Value, axis: int) -> _Factor | None:
    """Return the vectors, numbered along `axis`, that `x` is made of."""
    node, other = x.node, -3 - axis
    if node.op is ops.eigh:
        return _Factor(x) if x is node.results[1] and axis == -1 else None
    if node.op is ops.svd:
        return _Factor(x) if x is node.results[0 if axis == -1 else 2] else None
    if node.op is ops.transpose:
        *batch, row, column = node.attribute("perm")
        is_swap = (*batch, column, row) == tuple(range(x.rank))
        return _factor(node.operands[0], other) if is_swap else None
    if node.op is ops.narrow:
        inner = _factor(node.operands[0], axis)
        if node.attribute("axis") not in (axis, x.rank + axis) or inner is None or inner.part:
            return None
        taken = node.attribute("start"), node.attribute("length")
        return _Factor(inner.vectors, (), taken, inner.scales)
    if node.op is ops.matmul:
        base, diagonal = node.operands if axis == -1 else node.operands[::-1]
        inner, scale = _factor(base, axis), _diagonal(diagonal)
        return None if inner is None or scale is None else _scaled(inner, scale)
    if node.op is ops.div:
        return _scaled_by(node.operands[0], node.operands[1], x, axis, inverted=True)
    if node.op is ops.mul:
        a, b = node.operands
        return _scaled_by(a, b, x, axis) or _scaled_by(b, a, x, axis)
    return None


def _scaled(factor: _Factor, scale: Value) -> _Factor:
    return _Factor(factor.vectors, (*factor.scales, scale), factor.part, factor.inner)


def _scaled_by(
    base: Value, scale: Value, x: Value, axis: int, *, inverted: bool = False
) -> _Factor | None:
    if base.rank > x.rank or base.shape != x.shape[x.rank - base.rank :]:
        return None
    inner = _factor(base, axis)
    numbers = None if inner is None else _vector(scale, x.shape[axis], axis)
    if inner is None or numbers is None:
        return None
    return _scaled(inner, 1.0 / numbers if inverted else numbers)


def _vector(scale: Value, extent: object, axis: int) -> Value | None:
    """Return a number for each vector from what broadcasts to a matrix of them."""
    while scale.op is ops.expand:
        scale = scale.node.operands[0]
    if not scale.shape:
        return scale
    if axis == -1 and scale.shape[-1] == extent and (scale.rank == 1 or scale.shape[-2] == 1):
        return reshape_to(scale, (*scale.shape[:-2], extent)) if scale.rank > 1 else scale
    if axis == -2 and scale.rank > 1 and scale.shape[-2:] == (extent, 1):
        return reshape_to(scale, scale.shape[:-1])
    return None


def _diagonal(x: Value) -> Value | None:
    """Return the vector whose elements `x` has on its diagonal, and zeros elsewhere."""
    if x.rank != 2 or x.shape[0] != x.shape[1]:
        return None
    extent = x.shape[0]
    if not isinstance(extent, int) or not 0 < extent <= _LARGEST_DIAGONAL:
        return None
    inside, pending, found = dict[Value, None](), [x], set[Value]()
    while pending:
        value = pending.pop()
        if value.op is ops.constant or value in inside:
            continue
        if value.shape == (extent,) and value.op not in (ops.narrow, ops.concat):
            found.add(value)
        elif value.op in _PLACING:
            inside[value] = None
            pending.extend(value.node.operands)
        else:
            return None
    if len(found) != 1:
        return None
    (vector,) = found
    return vector if _places(x, vector, inside) else None


def _places(x: Value, vector: Value, inside: Collection[Value]) -> bool:
    """True if the nodes `inside` put the elements of `vector` on the diagonal of `x`."""
    probe = Graph("diagonal")
    image = {vector: probe.input("vector", vector.shape, vector.dtype)}
    for node in x.graph.nodes[: x.node.index + 1]:
        if len(node.results) == 1 and (node.result in inside or node.op is ops.constant):
            copy_node(probe, node, image)
    probe.set_outputs([image[x]])
    (extent,) = vector.type.static_shape
    numbers = np.arange(1, extent + 1).astype(vector.dtype.numpy)
    (placed,) = evaluate(probe, {"vector": numbers})
    return bool(np.array_equal(placed, np.diag(numbers)))


def _weights(left: _Factor, right: _Factor, numbers: Value, batch: Shape) -> Value | None:
    """Return the number of each vector in the product, for each of its batch."""
    extent = numbers.shape[-1]
    outer = (*left.scales, *right.scales)
    total: Value = full(numbers.graph, TensorType(numbers.dtype, ()), 1.0)
    for scale in outer:
        total = total * scale
    if left.part is not None:
        start, length = left.part
        assert isinstance(extent, int), "decompositions have static extents"
        total = expand_to(total, (*total.shape[:-1], length))
        sides = [(0,) * (total.rank - 1) + (n,) for n in (start, extent - start - length)]
        total = ops.pad(total, low=sides[0], high=sides[1])
    for scale in (*left.inner, *right.inner):
        total = total * scale
    shape = (*batch, extent)
    fits = total.rank <= len(shape) and all(
        own in (1, whole) for own, whole in zip(total.shape[::-1], shape[::-1], strict=False)
    )
    return expand_to(total, shape) if fits and total.dtype is numbers.dtype else None


@dataclass(frozen=True)
class _Change:
    """Numbers, their weights, and how weights change as numbers change by `t`."""

    w: Value
    h: Value
    s: Value
    t: Value

    @staticmethod
    def of(w: Value, h: Value) -> _Change:
        n = w.type.with_shape(w.shape[-1:]).static_shape[0]
        steps = 1.0 + np.arange(n) / n
        t = expand_to(w.graph.constant(steps.astype(w.dtype.numpy)), w.shape)
        (s,) = jvp_in_graph(w.graph, [h], [w], [t])  # with the vectors as they are
        s = zeros(w.graph, h.type) if s is None else s
        return _Change(expand_to(w, h.shape), h, s, expand_to(t, h.shape))

    def quotient(self, sign: float, mask: Value | None) -> Value:
        """Return `(h_j + sign h_i) / (w_j + sign w_i)`, 0 where `mask` is true, or its limit."""
        h, w, s, t = (row_of(x) + sign * column_of(x) for x in (self.h, self.w, self.s, self.t))
        found = self._extended(h, w, s, t, row_of)
        return found if mask is None else ops.where(mask, 0.0, found)

    def ratio(self) -> Value:
        """Return `h / w`, or its limit."""
        return self._extended(self.h, self.w, self.s, self.t, lambda x: x)

    def _extended(
        self, h: Value, w: Value, s: Value, t: Value, shaped: Callable[[Value], Value]
    ) -> Value:
        root = 2.0**-26 if self.w.dtype.size == 8 else 2.0**-12
        near_w, near_h = (
            ops.le(ops.abs(each), shaped(root * factor * _largest(whole)))
            for each, whole, factor in ((w, self.w, 1.0), (h, self.h, 64.0))
        )
        is_near = ops.logical_and(near_w, near_h)
        limit = ops.where(is_near, s, 0.0) / ops.where(is_near, t, 1.0)
        apart = resolved(w, shaped(rounding_of(self.w)))
        found: Value = ops.where(is_near, limit, h / ops.where(is_near, 1.0, apart))
        return found


def _largest(x: Value) -> Value:
    sizes = ops.abs(ops.stop_gradient(x))
    return ops.reduce_max(sizes, axes=(-1,), keepdims=True)


def _of_eigh(product: Value, node: Node, h: Value) -> Value:
    (a,), (w, v) = node.operands, node.results
    n, _ = a.type.with_shape(a.shape[-2:]).static_shape
    ratios = _Change.of(w, h).quotient(-1.0, diagonal_mask(product.graph, n))

    def moved(primals: Sequence[Value], tangents: Sequence[Value]) -> Value:
        (a, v, _, ratios), (da, _, dh, _) = primals, tangents
        inside = ops.matmul(swap_last(v), ops.matmul(symmetric_tangent(a.graph, da), v))
        turned: Value = ops.matmul(v, inside * ratios) + v * row_of(dh)
        return ops.matmul(turned, swap_last(v))

    return _with_rule(product, (a, v, h, ratios), moved)


def _of_svd(product: Value, node: Node, h: Value) -> Value:
    (a,), (u, s, vt) = node.operands, node.results
    rows, n = a.type.with_shape(a.shape[-2:]).static_shape
    change, mask = _Change.of(s, h), diagonal_mask(product.graph, n)
    given = (a, u, vt, h, change.quotient(-1.0, mask), change.quotient(1.0, mask), change.ratio())

    def moved(primals: Sequence[Value], tangents: Sequence[Value]) -> Value:
        _, u, vt, _, differences, sums, ratio = primals
        across = ops.matmul(tangents[0], swap_last(vt))
        inside = ops.matmul(swap_last(u), across)
        even, odd = (0.5 * (inside + sign * swap_last(inside)) for sign in (1.0, -1.0))
        turned = ops.matmul(u, differences * even + sums * odd) + u * row_of(tangents[3])
        if rows > n:
            turned = turned + (across - ops.matmul(u, inside)) * row_of(ratio)
        return ops.matmul(turned, vt)

    return _with_rule(product, given, moved)


def _with_rule(
    product: Value,
    operands: Sequence[Value],
    moved: Callable[[Sequence[Value], Sequence[Value]], Value],
) -> Value:
    rule = Graph("spectral_jvp")
    types = [*(x.type for x in operands), product.type, *(x.type for x in operands)]
    inputs = [rule.input(f"x{i}", type.shape, type.dtype) for i, type in enumerate(types)]
    count = len(operands)
    rule.set_outputs([moved(inputs[:count], inputs[count + 1 :])])
    return ops.custom_derivative(product, *operands, num_results=1, rule=rule)[0]

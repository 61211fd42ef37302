"""Functions of a matrix by its eigenvalues or singular values, where these are equal.

    (v * h) @ v.T    ->    custom_derivative of it, by a, v, h and divided differences

With `w, v = eigh(a)` and `m = v.T da v`, the derivative of `b = v diag(h(w)) v.T` is
`v (d * m) v.T` with the divided differences `d_ij = (h_j - h_i) / (w_j - w_i)` (Daleckii and
Krein, 1951). The rule of `eigh` divides by `w_j - w_i` alone, and what it gives for equal values is
not finite. Here the quotient is extended by its limit: if `h` changes by `s` as `w` changes by
`t`, with `v` as it is, then `(h_j - h_i) / (w_j - w_i)` is `(s_j - s_i) / (t_j - t_i)` where
values are equal. `h` is any function of all values that treats them alike, as the gradient of a
symmetric function of them does, so that second derivatives of those are right, too. Where
it does not treat them alike, the limit is NaN.

For `u, s, v.T = svd(a)` and `b = u diag(h) v.T` the symmetric part of `m = u.T da v` has such
quotients, and the antisymmetric one those of sums, `(h_j + h_i) / (s_j + s_i)`.

Where each number in `h` is a function of its own value and of contexts that all share, second
derivatives of the product are right, too (`divided_differences`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OpDef, Trait
from rlx.ir.reference import evaluate
from rlx.ir.shape import Shape
from rlx.ir.types import TensorType
from rlx.passes.algebra import (
    expand_to,
    extent_product,
    full,
    reshape_to,
    swap_last,
    zeros,
)
from rlx.passes.autodiff.divided_differences import MatrixFunction, derived, derived_sum
from rlx.passes.autodiff.rules.decompositions import (
    column_of,
    diagonal_mask,
    resolved,
    rounding_of,
    row_of,
    symmetric_tangent,
)
from rlx.passes.autodiff.sweep import jvp_in_graph
from rlx.passes.rewrite import Rewritten, ancestors, copy_node, graph_pass, is_leaf, unchanged
from rlx.passes.rewrite import finish as finish_graph

_PLACING: frozenset[OpDef] = frozenset({
    ops.pad, ops.reshape, ops.narrow, ops.concat, ops.expand, ops.where, ops.transpose, ops.mul,
})  # fmt: skip
"""Ops that put the elements of a vector on the diagonal of a matrix."""
_LARGEST_DIAGONAL = 512
"""Matrices above this extent are not evaluated to see whether they are diagonal."""
_DECOMPOSITIONS: frozenset[OpDef] = frozenset({ops.eigh, ops.svd})


@graph_pass
def spectral_functions(graph: Graph) -> Rewritten:
    """Give products `v diag(h) v.T` of one decomposition's vectors custom derivatives."""
    if not any(node.op in _DECOMPOSITIONS for node in graph.nodes):
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
        elif _is_sum(node) and node.result not in stated:
            with target.attributed(node.source, node.scope):
                value_map[node.result] = _stated_sum(results[0])
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
    if node is not right.vectors.node or 0 in product.shape[-2:]:
        return None
    numbers = node.results[0 if node.op is ops.eigh else 1]
    if node.op is ops.eigh:
        h = _weights(left, right, numbers, product.shape[:-2])
        return None if h is None else _of_eigh(product, node, h)
    if left.vectors is right.vectors or _has_further_vectors(node):
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
    agrees: Value
    """True for weights that change alike if equal numbers change places in `t`."""

    @staticmethod
    def of(w: Value, h: Value) -> _Change:
        n = w.type.with_shape(w.shape[-1:]).static_shape[0]
        steps = (1.0 + np.arange(n) / n).astype(w.dtype.numpy)
        t = expand_to(w.graph.constant(steps), w.shape)
        places = _reversed_places(w)
        s, other = (_step(h, w, way) for way in (t, _permuted(places, t)))
        root = _rounded_root(w)
        slack = 64.0 * root * ops.maximum(_largest(s), _largest(other))
        agrees = ops.le(ops.abs(other - _permuted(places, s)), slack)
        return _Change(expand_to(w, h.shape), h, s, expand_to(t, h.shape), agrees)

    def quotient(self, sign: float, mask: Value | None) -> Value:
        """Return `(h_j + sign h_i) / (w_j + sign w_i)`, 0 where `mask` is true, or its limit."""
        h, w, s, t = (row_of(x) + sign * column_of(x) for x in (self.h, self.w, self.s, self.t))
        agrees = ops.logical_and(row_of(self.agrees), column_of(self.agrees))
        found = self._extended(h, w, s, t, agrees, row_of)
        return found if mask is None else ops.where(mask, 0.0, found)

    def ratio(self) -> Value:
        """Return `h / w`, or its limit."""
        return self._extended(self.h, self.w, self.s, self.t, self.agrees, lambda x: x)

    def _extended(
        self,
        h: Value,
        w: Value,
        s: Value,
        t: Value,
        agrees: Value,
        shaped: Callable[[Value], Value],
    ) -> Value:
        root = _rounded_root(self.w)
        near_w, near_h = (
            ops.le(ops.abs(each), shaped(root * factor * _largest(whole)))
            for each, whole, factor in ((w, self.w, 1.0), (h, self.h, 64.0))
        )
        is_near = ops.logical_and(near_w, near_h)
        limit = ops.where(is_near, s, 0.0) / ops.where(is_near, t, 1.0)
        limit = ops.where(agrees, limit, float("nan"))
        apart = resolved(w, shaped(rounding_of(self.w)))
        found: Value = ops.where(is_near, limit, h / ops.where(is_near, 1.0, apart))
        return found


def _step(h: Value, w: Value, t: Value) -> Value:
    """Return how `h` changes as `w` changes by `t`, with the vectors as they are."""
    (s,) = jvp_in_graph(w.graph, [h], [w], [t])
    return zeros(w.graph, h.type) if s is None else s


def _rounded_root(w: Value) -> float:
    """Return the relative distance of values below which quotients are their limits."""
    return 2.0**-26 if w.dtype.size == 8 else 2.0**-12


def _reversed_places(w: Value) -> Value:
    """Return the matrix that reverses the order of equal values."""
    gaps = ops.abs(row_of(w) - column_of(w))
    alike = ops.le(gaps, row_of(_rounded_root(w) * _largest(w)))
    n = w.type.with_shape(w.shape[-1:]).static_shape[0]
    below = w.graph.constant(np.tri(n, k=-1, dtype=np.bool_))
    before, count = (
        ops.reduce_sum(ops.cast(x, to=w.dtype), axes=(-1,))
        for x in (ops.logical_and(alike, below), alike)
    )
    opposite = ops.eq(row_of(before) + column_of(before), column_of(count) - 1.0)
    places: Value = ops.cast(ops.logical_and(alike, opposite), to=w.dtype)
    return places


def _permuted(places: Value, x: Value) -> Value:
    found: Value = ops.reduce_sum(places * row_of(x), axes=(-1,))
    return found


def _largest(x: Value) -> Value:
    sizes = ops.abs(ops.stop_gradient(x))
    return ops.reduce_max(sizes, axes=(-1,), keepdims=True)


def _of_eigh(product: Value, node: Node, h: Value) -> Value:
    (a,), (w, v) = node.operands, node.results
    stated = _of_values(product, node, h)
    if stated is not None:
        return stated
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
    stated = _of_values(product, node, h)
    if stated is not None:
        return stated
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


def _is_sum(node: Node) -> bool:
    return node.op is ops.reduce_sum or node.op is ops.reduce_mean


def _stated_sum(total: Value) -> Value:
    """Return `total` with its derivative stated if it sums numbers of single eigenvalues."""
    node, (x,) = total.node, total.node.operands
    if not node.attribute("axes"):
        return total
    *others, last = sorted(axis % x.rank for axis in node.attribute("axes"))
    extents = [x.shape[axis] for axis in (*others, last)]
    if last != x.rank - 1 or 0 in extents or not all(isinstance(e, int) for e in extents):
        return total
    found = next(filter(None, (_function_of(x, each) for each in _decompositions(x))), None)
    if found is None:
        return total
    f, given = found
    count = extent_product(x.shape, (*others, last)) if node.op is ops.reduce_mean else 1

    def moved(primals: Sequence[Value], tangents: Sequence[Value]) -> Value:
        numbers = derived_sum(f, primals, tangents)
        numbers = ops.reduce_sum(numbers, axes=tuple(others)) if others else numbers
        return reshape_to(numbers / float(count), total.shape)

    return _with_rule(total, given, moved)


def _decompositions(x: Value) -> list[Node]:
    """Return the decompositions of real matrices of whose values `x` may have a number each."""
    found = {value.node for value in ancestors([x]) if value.op in _DECOMPOSITIONS}
    return [
        node
        for node in sorted(found, key=lambda node: node.index)
        if node.operands[0].dtype is x.dtype
        and x.shape[-1] == _values(node).shape[-1]
        and not _has_further_vectors(node)
    ]


def _has_further_vectors(node: Node) -> bool:
    """True for a decomposition with vectors that no singular value belongs to."""
    rows, columns = node.operands[0].shape[-2:]
    return node.op is ops.svd and bool(node.attribute("full")) and rows != columns


def _values(node: Node) -> Value:
    return node.results[0 if node.op is ops.eigh else 1]


def _of_values(product: Value, node: Node, h: Value) -> Value | None:
    """Return `product` with derivatives to second order if each number is one of its value."""
    found = _function_of(h, node, own=False)
    if found is None:
        return None
    f, given = found

    def moved(primals: Sequence[Value], tangents: Sequence[Value]) -> Value:
        return derived(f, primals, tangents)

    return _with_rule(product, given, moved)


def _function_of(
    h: Value, node: Node, *, own: bool = True
) -> tuple[MatrixFunction, tuple[Value, ...]] | None:
    """Return `h` as numbers of single values of a decomposition, and its operands.

    With `own`, None if it depends on no value.
    """
    w = _values(node)
    found = _own_function(h, w, own=own)
    if found is None:
        return None
    weights, contexts = found
    varying = _varying(h.graph)
    fixed = frozenset(i for i, context in enumerate(contexts) if context not in varying)
    vectors = (x for x in node.results if x is not w)
    return MatrixFunction(node.op, weights, fixed), (*node.operands, *vectors, w, *contexts)


def _varying(graph: Graph) -> set[Value]:
    """Return the values that depend on inputs or params."""
    found = set[Value]()
    for node in graph.nodes:
        is_input = is_leaf(node) and node.op is not ops.constant
        if is_input or not found.isdisjoint(node.operands):
            found.update(node.results)
    return found


def _own_function(h: Value, w: Value, *, own: bool) -> tuple[Graph, list[Value]] | None:
    """Return `h` as a function of `w`, element by element, and of contexts; None if it is none.

    A context that depends on several values is a number for a whole matrix.
    """
    graph, n = w.graph, w.type.with_shape(w.shape[-1:]).static_shape[0]
    needed, depends = ancestors([h]), {w}
    places, path = {w: (0, n)}, list[Node]()
    labels = list[Value]()
    for node in graph.nodes[w.node.index + 1 : h.node.index + 1]:
        if needed.isdisjoint(node.results) or depends.isdisjoint(node.operands):
            continue
        depends.update(node.results)
        place = _place(node, places, n)
        if place is not None:
            places[node.result] = place
            path.append(node)
            if node.op is ops.pad:
                inside = np.zeros(n, w.dtype.numpy)
                start, length = places[node.operands[0]]
                inside[start : start + length] = 1
                labels.append(graph.constant(inside))
    if places.get(h, (0, n)) != (0, n) or (own and h not in places):
        return None
    if h.shape[-w.rank :] != w.shape:  # a reshape may have moved the matrices of a batch
        return None
    made = Graph("weights")
    image = {w: made.input("w", w.shape, w.dtype)}
    contexts = dict[Value, None]()
    wanted = _path_to(h, places)
    nodes = [node for node in path if node.result in wanted]
    for value in (h, *(operand for node in nodes for operand in node.operands), *labels):
        if value in places or value in image:
            continue
        is_single = not value.rank or value.shape[-1] == 1
        if value.op is ops.constant and not value.shape:
            copy_node(made, value.node, image)
        elif not is_single and (value in depends or value.shape[-1] != n):
            return None
        else:
            image[value] = made.input(f"context_{len(contexts)}", value.shape, value.dtype)
            contexts[value] = None
    for node in nodes:
        copy_node(made, node, image)
    made.set_outputs([image[h]])
    return made, list(contexts)


def _path_to(h: Value, own: Collection[Value]) -> set[Value]:
    """Return the values in `own` that `h` is made of by others of them."""
    found, pending = set[Value](), [h]
    while pending:
        value = pending.pop()
        if value in own and value not in found:
            found.add(value)
            pending.extend(value.node.operands)
    return found


def _place(node: Node, own: Mapping[Value, tuple[int, int]], n: int) -> tuple[int, int] | None:
    """Return which values the last axis of the result has a number for, one each."""
    places = {own[operand] for operand in node.operands if operand in own}
    if len(places) != 1 or len(node.results) != 1:
        return None
    ((start, length),) = places
    shape, last = node.result.shape, node.result.rank - 1
    if node.op is ops.narrow and node.attribute("axis") in (-1, last):
        return start + node.attribute("start"), node.attribute("length")
    if node.op is ops.pad:
        low, high = (node.attribute(side) for side in ("low", "high"))
        whole = (*(0,) * last, start), (*(0,) * last, n - start - length)
        return (0, n) if (low, high) == whole and not node.attribute("value") else None
    keeps = node.op.has(Trait.ELEMENTWISE) or node.op is ops.expand or node.op is ops.reshape
    is_aligned = all(o.rank and o.shape[-1] == length for o in node.operands if o in own)
    return (start, length) if keeps and is_aligned and shape[-1:] == (length,) else None

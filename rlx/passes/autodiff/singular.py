"""Removable singularities: second derivatives of even functions of norms at the origin.

    square(sqrt(u))            ->  u, NaN where negative (u is no sum of squares)
    maximum(u, 0)              ->  u (which is one)
    expm1(u) / u               ->  its series near 0
    q = divide_or_zero(v, r)    ->  where(r == 0 and v == 0, dv/dr, q)

The gradient of `f(r)` by `x`, with the norm `r = |x|`, is `f'(r) / r * x`. At the origin it is 0,
by convention where `f'(0)` is not 0. Its own derivative there is `lim f'(r) / r`, which is
`f''(0)` if `f'(0)` is 0 (l'Hopital), and does not exist otherwise. So the quotients that the
first derivative left are extended to the limit before the second derivative is taken.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from rlx.dataclass import dataclass
from rlx.homes import homes_of
from rlx.ir import ops
from rlx.ir.axis_maps import axis_of_result
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OpDef, Trait
from rlx.ir.types import TensorType
from rlx.passes.algebra import expand_to, full
from rlx.passes.autodiff.registry import zeros_everywhere
from rlx.passes.autodiff.sweep import carries, push_forward
from rlx.passes.rewrite import (
    Rewritten,
    ancestors,
    apply_rewrites,
    copy_node,
    graph_pass,
    is_leaf,
    map_bodies,
    rewrite,
    unchanged,
)
from rlx.passes.rewrite import finish as finish_graph
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.scalars import number

_AXES = ("_contracting", "_batch")
_DECOMPOSITIONS = "rlx.ir.ops.decompositions"
_ROOTS: frozenset[OpDef] = frozenset({ops.sqrt, ops.abs, ops.hypot})
_WITH_BODIES = frozenset({"scan", "while_loop", "cond", "switch", "checkpoint"})
_TERMWISE: frozenset[OpDef] = frozenset(
    {ops.reduce_sum, ops.reduce_mean, ops.reduce_max, ops.cast, ops.cumsum}
)


def vanishes_with_its_gradient(u: Value) -> bool:
    """True if `u` is a sum of squares, by construction: its gradient is 0 where it is 0."""
    operands = u.node.operands
    if u.op in (ops.square, ops.complex_norm_sq):
        return not u.dtype.is_complex
    if u.op in (ops.matmul, ops.dot_general):
        return not u.dtype.is_complex and _is_product_with_itself(u)
    if u.op is ops.mul:
        a, b = operands
        is_scaled = any(_is_positive(c) and _vanishes(s) for c, s in ((a, b), (b, a)))
        return is_scaled or _is_square(_factors(u))
    if u.op is ops.div:
        return vanishes_with_its_gradient(operands[0])
    if u.op in (ops.add, ops.maximum):
        return all(map(_vanishes, operands))
    if u.op is ops.where:
        return all(map(_vanishes, operands[1:]))
    is_termwise = u.op in _TERMWISE or u.op.has(Trait.REINDEXES)
    return is_termwise and vanishes_with_its_gradient(operands[0])


def _factors(u: Value) -> list[Value]:
    """Return what `u` is a product of, without positive numbers."""
    if u.op is ops.mul:
        return [factor for operand in u.node.operands for factor in _factors(operand)]
    return [] if _is_positive(u) else [u]


def _is_square(factors: Sequence[Value]) -> bool:
    """True if each of the factors is there an even number of times."""
    return bool(factors) and all(factors.count(each) % 2 == 0 for each in factors)


def _is_product_with_itself(u: Value) -> bool:
    """True if elements of `u` are products of a row with the same row."""
    a, b = u.node.operands
    if u.op is ops.dot_general:
        left, right = ([u.node.attribute(side + of) for of in _AXES] for side in ("lhs", "rhs"))
        return a is b and left == right and a.rank == len(left[0] + left[1])
    a_row, b_column = (x.node.operands[0] if x.op is ops.reshape else x for x in (a, b))
    return a_row is b_column and u.shape[-2:] == (1, 1)


def _is_whole(op: OpDef) -> bool:
    """True for ops that move all elements of an operand."""
    return op.has(Trait.REINDEXES) and not op.has(Trait.SUBSET)


def _unmoved(u: Value) -> Value:
    """Return what `u` is a view or broadcast of."""
    while _is_whole(u.op):
        u = u.node.operands[0]
    return u


def _vanishes(u: Value) -> bool:
    constant = number(u)
    return vanishes_with_its_gradient(u) if constant is None else constant >= 0


def _is_positive(u: Value) -> bool:
    constant = number(u)
    return u.op is ops.exp if constant is None else constant > 0


@graph_pass
def remove_singularities(graph: Graph) -> Rewritten:
    """Prepare `graph` for differentiation at the singular points of norms and magnitudes."""
    made = _bodies.rewrite(graph)
    if any(node.op is ops.expm1 for node in made.graph.nodes):
        made = made.then(_quotients)
    homes = homes_of("op")
    if any(homes.get(node.op.name) == _DECOMPOSITIONS for node in made.graph.nodes):
        from rlx.passes.autodiff.spectral import spectral_functions  # few programs need it

        made = made.then(spectral_functions)
    if not any(node.op in _ROOTS for node in made.graph.nodes):
        return made
    return made.then(common_subexpressions).then(_square_roots).then(_extend_quotients)


@graph_pass
def _bodies(graph: Graph) -> Rewritten:
    """Prepare the bodies of loops and branches."""
    changed = {
        node: attrs
        for node in graph.nodes
        if node.op.name in _WITH_BODIES
        and (attrs := map_bodies(node.attrs, remove_singularities)) is not node.attrs
    }
    if not changed:
        return unchanged(graph)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        copy_node(target, node, value_map, attrs=changed.get(node))
    finish_graph(target, graph, value_map)
    return Rewritten(target, value_map)


@graph_pass
def _quotients(graph: Graph) -> Rewritten:
    return apply_rewrites(graph, [_quotient_of_expm1])


@rewrite(ops.div)
def _quotient_of_expm1(node: Node) -> Value | None:
    """Return `expm1(u) / u` as its series near 0, where the slope of the quotient cancels.

    At 0 the value is NaN, as that of the quotient; its slopes are those of the series.
    """
    over, u = node.operands
    is_known = over.op is ops.expm1 and over.node.operands[0] is u and u.op is not ops.where
    if not is_known or not u.dtype.is_float:
        return None
    near, one = ops.logical_and(u > -0.5, u < 0.5), _constant(u, 1.0)
    inner = ops.where(near, u, 0.0)
    series = _constant(u, 1 / math.factorial(_TERMS))
    for k in range(_TERMS - 1, 0, -1):
        series = series * inner + 1 / math.factorial(k)
    outer = ops.where(near, one, u)
    found: Value = ops.where(near, series, ops.expm1(outer) / outer)
    missing: Value = ops.where(ops.eq(u, 0.0), _constant(u, math.nan), 0.0)
    return found + missing


_TERMS = 17
"""Enough for the second slope in f64, up to 1/2."""


@graph_pass
def _square_roots(graph: Graph) -> Rewritten:
    return apply_rewrites(graph, [_maximum_of_squares, _square_of_root])


@rewrite(ops.maximum, ops.relu)
def _maximum_of_squares(node: Node) -> Value | None:
    """Return a sum of squares for the larger one of it and 0, of which half is each at a tie."""
    if node.op is ops.relu:
        (u,) = node.operands
        return u if vanishes_with_its_gradient(u) else None
    for u, least in (node.operands, node.operands[::-1]):
        bound = number(least)
        is_least = bound is not None and bound <= 0 and u.type == node.result.type
        if is_least and vanishes_with_its_gradient(u):
            return u
    return None


@rewrite(ops.square, ops.mul, ops.pow)
def _square_of_root(node: Node) -> Value | None:
    """Return `u` for `sqrt(u)^2`, times NaN where negative: so is its derivative, then."""
    root = node.operands[0]
    if root.op is not ops.sqrt or root.dtype.is_complex or root.type != node.result.type:
        return None
    if node.op is ops.mul and node.operands[1] is not root:
        return None
    if node.op is ops.pow and number(node.operands[1]) != 2:
        return None
    (u,) = root.node.operands
    if vanishes_with_its_gradient(u):
        return None
    return u * ops.where(u >= 0.0, _constant(u, 1.0), float("nan"))


@graph_pass
def _extend_quotients(graph: Graph) -> Rewritten:
    """Give quotients by norms, and products with signs, their limits at the origin."""
    target, value_map = Graph(graph.name), dict[Value, Value]()
    magnitudes: dict[Value, Value] = {}
    for node in graph.nodes:
        results = copy_node(target, node, value_map)
        if node.op is ops.abs:
            magnitudes[value_map[node.operands[0]]] = results[0]
        elif node.op is ops.divide_or_zero:
            value_map[node.result] = _extended_quotient(results[0])
        elif node.op is ops.mul:
            value_map[node.result] = _extended_sign(results[0], magnitudes)
    finish_graph(target, graph, value_map)
    return Rewritten(target, value_map)


def _extended_quotient(q: Value) -> Value:
    v, r = q.node.operands
    root = _unmoved(r)
    slope = _slope(v, root) if root.op in _ROOTS else None
    if slope is None or slope.limit is None:
        return q
    limit, is_exact = slope.limit, slope.is_exact
    at_origin = ops.logical_and(ops.eq(r, 0.0), ops.eq(v, 0.0))
    if is_exact is not None:
        at_origin = ops.logical_and(at_origin, is_exact)
    extended: Value = ops.where(at_origin, limit, q)
    return extended if extended.type == q.type else q


def _extended_sign(result: Value, magnitudes: dict[Value, Value]) -> Value:
    """Extend `v * sign(x)`, the gradient of a function of `abs(x)`, by `dv/d|x| * x`."""
    for sign, v in (result.node.operands, result.node.operands[::-1]):
        of_sign = _unmoved(sign)
        if of_sign.op is not ops.sign or of_sign.node.operands[0] not in magnitudes:
            continue
        x = of_sign.node.operands[0]
        slope = _slope(v, magnitudes[x])
        if slope is None or sign is not of_sign:
            return result
        # 0, with a derivative that is the limit of those of both sides, NaN if it is not known.
        # Where `v` is infinite or NaN, so is the product
        unknown = result + ops.divide_or_zero(x, x)
        at_origin = unknown if slope.limit is None else slope.limit * x
        if slope.crossing is not None:
            at_origin = ops.where(ops.eq(slope.crossing, 0.0), at_origin, unknown)
        extended: Value = ops.where(ops.eq(x, 0.0), at_origin, result)
        return extended if extended.type == result.type else result
    return result


@dataclass(frozen=True)
class _Slope:
    """The derivative of each element of a value by its element of a root."""

    limit: Value | None
    """None if elements of the value depend on several ones."""
    is_exact: Value | None = None
    """Where the value changes with nothing else, neither with inputs, nor with other elements
    of the root, nor with other norms that are 0; None: everywhere."""
    crossing: Value | None = None
    """How the value changes with elements of the root that are 0 through values that depend on
    several ones; None: not at all."""


def _slope(v: Value, root: Value) -> _Slope | None:
    """Return the derivative of `v` by `root`; None if it has none."""
    graph, needed = v.graph, ancestors([v])
    seeds = {root: full(graph, root.type, 1)}
    if root.op is ops.sqrt:
        seeds[root.node.operands[0]] = 2.0 * root
    before = graph.nodes[: v.node.index + 1]
    nodes = [node for node in before if not needed.isdisjoint(node.results)]
    varying, depends = set[Value](), set(seeds)
    pointwise = dict.fromkeys(seeds, tuple(i for i, e in enumerate(root.shape) if e != 1))
    path, frontier = list[Node](), dict[Value, None]()
    for node in nodes:
        if node.op is not ops.constant and (is_leaf(node) or not varying.isdisjoint(node.operands)):
            varying.update(node.results)
        if node is root.node or depends.isdisjoint(node.operands) or not _flows(node):
            continue
        depends.update(node.results)
        axes = _axes_of_root(node, pointwise)
        if axes is not None:
            pointwise.update(dict.fromkeys(node.results, axes))
            path.append(node)
            outside = varying.difference(pointwise)
            frontier.update(dict.fromkeys(o for o in node.operands if o in outside))
    if v not in depends:
        return None
    slope = _pushed(path, seeds).get(v) if v in pointwise else None
    if slope is None:
        return _Slope(None)
    others = [node.result for node in nodes if _is_norm(node) and node.result not in depends]
    steps = {each: _generic(each) for each in frontier if each.dtype.is_differentiable}
    steps |= {r: ops.where(ops.eq(r, 0.0), _generic(r), 0.0) for r in others}
    change = _pushed(nodes, steps, blocked=seeds).get(v)
    is_exact = None if change is None else ops.eq(change, 0.0)
    return _Slope(slope, is_exact, _crossing(v, root, nodes, depends.intersection(frontier)))


def _crossing(
    v: Value, root: Value, nodes: Sequence[Node], through: Collection[Value]
) -> Value | None:
    """Return how `v` changes through some values with elements of `root` that are 0."""
    if root.op is not ops.abs or not through:
        return None
    given = {root: ops.where(ops.eq(root, 0.0), _generic(root), 0.0)}
    moved = _pushed(nodes, given)
    steps = {each: moved[each] for each in moved if each in through}
    return _pushed(nodes, steps, blocked=given).get(v)


def _generic(like: Value) -> Value:
    """Return numbers of the type of `like` between 1 and 2, of which sums do not cancel."""
    angle = _constant(like, 1.0 + 0.7 * like.node.index)
    for axis in range(like.rank):
        position = like.graph.iota(type=TensorType(DType.I64, like.shape), axis=axis)
        angle = angle + (1.3 + 0.4 * axis) * ops.cast(position, to=like.dtype)
    return expand_to(1.5 + 0.5 * ops.sin(angle), like.shape)


def _constant(like: Value, number: float) -> Value:
    return like.graph.constant(number, like.dtype)


def _is_norm(node: Node) -> bool:
    if node.op in (ops.abs, ops.hypot):
        return node.result.dtype.is_float
    return node.op is ops.sqrt and vanishes_with_its_gradient(node.operands[0])


def _pushed(
    path: Iterable[Node], seeds: Mapping[Value, Value], blocked: Collection[Value] = ()
) -> dict[Value, Value]:
    """Return the tangents of values along `path` for those in `seeds`, which stay as given.

    Values in `blocked` have none.
    """
    known = dict(seeds)
    for node in path:
        given = tuple(known.get(operand) for operand in node.operands)
        if _flows(node) and any(tangent is not None for tangent in given):
            for result, tangent in zip(node.results, push_forward(node, given), strict=True):
                if tangent is not None and result not in blocked:
                    known.setdefault(result, tangent)
    return known


def _flows(node: Node) -> bool:
    return zeros_everywhere.reason(node.op) is None and any(map(carries, node.results))


def _axes_of_root(node: Node, pointwise: Mapping[Value, tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return which axes of the results are those of a root, given the same of operands.

    Elements of the results depend on the element of the root at their position alone, then.
    """
    found = {
        tuple(_axis_after(node, i, axis) for axis in pointwise[operand])
        for i, operand in enumerate(node.operands)
        if operand in pointwise
    }
    axes = found.pop() if len(found) == 1 else (None,)
    return None if None in axes else tuple(axis for axis in axes if axis is not None)


def _axis_after(node: Node, operand: int, axis: int) -> int | None:
    """Return the axis of the result that is `axis` of an operand, element by element."""
    if node.op is not ops.logsumexp:
        return axis_of_result(node, operand, axis)
    axes = node.attribute("axes")
    if axis in axes:
        return None
    return axis if node.attribute("keepdims") else axis - sum(each < axis for each in axes)

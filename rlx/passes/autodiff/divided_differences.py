"""Functions of a symmetric matrix, or of singular values, with derivatives to second order.

For `a = v diag(w) v.T` and `f(a) = v diag(h(w)) v.T` with `h_i = h(w_i)`, in the basis of the
eigenvectors (Daleckii and Krein, 1951; Higham, Functions of Matrices, 2008, theorem 3.11)

    Df[x]_ij    = h[w_i, w_j] x_ij
    D2f[x,y]_ij = sum_k h[w_i, w_k, w_j] (x_ik y_kj + y_ik x_kj)

with divided differences, whose limits at equal values are derivatives of `h`. The vectors have no
derivatives there, so that these formulas are differentiated as such: the first is a `custom_call`
whose rules hold the second. Further derivatives are those of the formulas' text, which are not
finite at equal values.

For singular values, `u diag(h(s)) v.T` is a block of a function of `[[0, a], [a.T, 0]]`, whose
eigenvalues are `s`, `-s` and 0, with `h` extended to an odd function.

Numbers `h` may also depend on contexts: other values, of which each is one number for a matrix or
one for each of its eigenvalues. Where those of equal eigenvalues differ there is no derivative,
and it is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.op import OpDef
from rlx.ir.shape import Extent
from rlx.ir.types import TensorType
from rlx.passes.algebra import expand_to, full, reshape_to, swap_last, unbroadcast, zeros
from rlx.passes.autodiff.rules.decompositions import (
    column_of,
    diagonal_mask,
    rounding_of,
    row_of,
    symmetric_tangent,
)
from rlx.passes.autodiff.sweep import jvp_in_graph, vjp_in_graph
from rlx.passes.rewrite import ancestors

_DEPTH = 2
"""A derivative is pulled back once, and differentiated once more."""


@dataclass(frozen=True)
class MatrixFunction:
    """A function of the decompositions of `op`, by that of its values.

    `weights` takes the values, `[..., n]`, and contexts, and returns a number for each value.
    """

    op: OpDef
    weights: Graph
    fixed: frozenset[int]
    """The contexts that depend on no input."""

    def split(self, given: Sequence[Value]) -> tuple[Value, list[Value], Value, list[Value]]:
        """Return the matrix, its vectors, values and the contexts in operands `given`."""
        count = 1 if self.op is ops.eigh else 2
        a, *rest = given
        return a, rest[:count], rest[count], rest[count + 1 :]

    def moving(self, contexts: Sequence[Value]) -> tuple[int, ...]:
        """Return which contexts have derivatives."""
        return tuple(
            i
            for i, context in enumerate(contexts)
            if i not in self.fixed and context.dtype.is_differentiable
        )


def derived(f: MatrixFunction, given: Sequence[Value], tangents: Sequence[Value]) -> Value:
    """Append the derivative of `f` of the operands `given` in the direction `tangents`."""
    return _derived(f, given, (), tangents, (), _DEPTH)


def derived_sum(f: MatrixFunction, given: Sequence[Value], tangents: Sequence[Value]) -> Value:
    """Append the derivative of the sum of the numbers of `f`, one for each matrix."""
    a, _, w, contexts = f.split(given)
    moved = f.split(tangents)
    da = symmetric_tangent(a.graph, moved[0]) if f.op is ops.eigh else moved[0]
    types = tuple(context.type for context in contexts)
    slope, kept = _by_values(f, types)
    operands = (*given[: len(given) - len(contexts)], *(contexts[i] for i in kept))
    total = ops.reduce_sum(_apply(slope, operands, (), _DEPTH) * da, axes=(-2, -1))
    moving = f.moving(contexts)
    if moving:
        further = _moved(
            f, w, contexts, [contexts[i] for i in moving], [moved[3][i] for i in moving]
        )
        total = total + ops.reduce_sum(further, axes=(-1,))
    found: Value = total
    return found


def _derived(
    f: MatrixFunction,
    given: Sequence[Value],
    directions: Sequence[Value],
    tangents: Sequence[Value],
    turned: Sequence[Value],
    depth: int,
) -> Value:
    """Append how the derivative of `f` in `directions` changes, if these change by `turned`."""
    a, _, _, contexts = f.split(given)
    da = f.split(tangents)[0]
    da = symmetric_tangent(a.graph, da) if f.op is ops.eigh else da
    total = _apply(f, given, (*directions, da), depth)
    for direction in turned:
        total = total + _apply(f, given, (direction,), depth)
    moving, further = f.moving(contexts), f.split(tangents)[3]
    if moving:
        moved, kept = _by_contexts(f, tuple(c.type for c in contexts), moving)
        numbers = [*contexts, *(further[i] for i in moving)]
        operands = (*given[: len(given) - len(contexts)], *(numbers[i] for i in kept))
        total = total + _apply(moved, operands, directions, depth)
    return total


def _apply(
    f: MatrixFunction, given: Sequence[Value], directions: Sequence[Value], depth: int
) -> Value:
    """Append the derivative of `f` in no, one or two directions, with rules of its own."""
    types = tuple(x.type for x in (*directions, *given))
    operands = (*directions, *given)
    if not depth or len(directions) == 2:
        (found,) = given[0].graph.inline(_body(f, types, len(directions)), operands)
        return found
    body, pushed, pulled = _bodies(f, types, len(directions), depth)
    (found,) = ops.custom_call(*operands, body=body, jvp_body=pushed, vjp_body=pulled)
    return found


@functools.lru_cache(maxsize=256)
def _body(f: MatrixFunction, types: tuple[TensorType, ...], count: int) -> Graph:
    def build(inputs: Sequence[Value]) -> list[Value]:
        return [_formula(f, inputs[count:], inputs[:count])]

    return _graph("matrix_function", types, build)


@functools.lru_cache(maxsize=256)
def _bodies(
    f: MatrixFunction, types: tuple[TensorType, ...], count: int, depth: int
) -> tuple[Graph, Graph, Graph]:
    """Return the derivative of `f` in the directions that are the first `count` operands.

    With its rules forward and in reverse: only what is pulled back is differentiated again.
    """

    def pushed(inputs: Sequence[Value]) -> list[Value]:
        primals, tangents = inputs[: len(types)], inputs[len(types) + 1 :]
        given, moved = primals[count:], tangents[count:]
        return [_derived(f, given, primals[:count], moved, tangents[:count], 0)]

    def pulled(inputs: Sequence[Value]) -> list[Value]:
        primals, cotangent = inputs[: len(types)], inputs[-1]
        return _pulled(f, primals[count:], primals[:count], cotangent, depth - 1)

    made = _body(f, types, count)
    (result,) = (output.type for output in made.outputs)
    return (
        made,
        _graph("matrix_function_jvp", [*types, result, *types], pushed),
        _graph("matrix_function_vjp", [*types, result, result], pulled),
    )


def _graph(
    name: str, types: Sequence[TensorType], build: Callable[[Sequence[Value]], Sequence[Value]]
) -> Graph:
    graph = Graph(name)
    graph.set_outputs(build([graph.input(f"x{i}", t.shape, t.dtype) for i, t in enumerate(types)]))
    return graph


def _pulled(
    f: MatrixFunction,
    given: Sequence[Value],
    directions: Sequence[Value],
    cotangent: Value,
    depth: int,
) -> list[Value]:
    """Return the cotangents of `directions` and `given`: the derivatives are self-adjoint."""
    a, vectors, w, contexts = f.split(given)
    graph, is_symmetric = a.graph, f.op is ops.eigh
    decomposition = (a, *vectors, w)
    found = [
        unbroadcast(_apply(f, given, (cotangent,), depth), direction.shape)
        for direction in directions
    ]
    others = [swap_last(x) if is_symmetric else x for x in directions]
    of_matrix = unbroadcast(_apply(f, given, (cotangent, *others), depth), a.shape)
    found.append(_of_lower_triangle(of_matrix) if is_symmetric else of_matrix)
    found += [zeros(graph, x.type) for x in (*vectors, w)]
    moving = f.moving(contexts)
    for i, context in enumerate(contexts):
        if i not in moving:
            found.append(zeros(graph, context.type))
        elif _is_of_values(context, w):
            found.append(_by_formula(f, given, directions, cotangent, context))
        else:
            slope, kept = _by_one(f, tuple(c.type for c in contexts), i)
            operands = (*decomposition, *(contexts[k] for k in kept))
            moved = _apply(slope, operands, directions, depth) * cotangent
            numbers = ops.reduce_sum(moved, axes=(-2, -1), keepdims=True)
            found.append(unbroadcast(reshape_to(numbers, numbers.shape[:-1]), context.shape))
    return found


def _of_lower_triangle(x: Value) -> Value:
    """Return the cotangent of the triangle that is read, from that of a symmetric matrix."""
    n, _ = x.type.with_shape(x.shape[-2:]).static_shape
    row, column = (
        x.graph.iota(type=TensorType(DType.I64, shape), axis=0) for shape in ((n, 1), (n,))
    )
    below = ops.where(ops.gt(row, column), x + swap_last(x), 0.0)
    found: Value = ops.where(diagonal_mask(x.graph, n), x, below)
    return found


def _by_formula(
    f: MatrixFunction,
    given: Sequence[Value],
    directions: Sequence[Value],
    cotangent: Value,
    context: Value,
) -> Value:
    """Return the cotangent of numbers of single eigenvalues, which have no derivative if equal."""
    result = _formula(f, given, directions)
    (found,) = vjp_in_graph(context.graph, [result], [context], [cotangent])
    return zeros(context.graph, context.type) if found is None else found


def _is_of_values(context: Value, w: Value) -> bool:
    return context.rank > 0 and context.shape[-1] == w.shape[-1] != 1


@functools.lru_cache(maxsize=256)
def _by_contexts(
    f: MatrixFunction, types: tuple[TensorType, ...], moving: tuple[int, ...]
) -> tuple[MatrixFunction, tuple[int, ...]]:
    """Return the derivative of `f` by contexts, whose tangents are further contexts."""
    count = len(types)

    def build(w: Value, given: Sequence[Value]) -> Value:
        return _moved(f, w, given[:count], [given[i] for i in moving], given[count:])

    return _rebuilt(f, (*types, *(types[i] for i in moving)), build)


@functools.lru_cache(maxsize=256)
def _by_one(
    f: MatrixFunction, types: tuple[TensorType, ...], i: int
) -> tuple[MatrixFunction, tuple[int, ...]]:
    """Return the derivative of `f` by one context, which is one number for a matrix."""

    def build(w: Value, given: Sequence[Value]) -> Value:
        return _moved(f, w, given, [given[i]], [full(w.graph, given[i].type, 1.0)])

    return _rebuilt(f, types, build)


@functools.lru_cache(maxsize=256)
def _by_values(
    f: MatrixFunction, types: tuple[TensorType, ...]
) -> tuple[MatrixFunction, tuple[int, ...]]:
    """Return the derivative of each number of `f` by its own value."""

    def build(w: Value, given: Sequence[Value]) -> Value:
        return _moved(f, w, given, [w], [full(w.graph, w.type, 1.0)])

    return _rebuilt(f, types, build)


def _rebuilt(
    f: MatrixFunction,
    types: Sequence[TensorType],
    build: Callable[[Value, Sequence[Value]], Value],
) -> tuple[MatrixFunction, tuple[int, ...]]:
    """Return a function of the values, and which contexts it takes: those that it depends on."""
    w = f.weights.inputs[0].type
    whole = _graph("weights", [w, *types], lambda inputs: [build(inputs[0], inputs[1:])])
    needed = ancestors(whole.outputs)
    kept = tuple(i for i, x in enumerate(whole.inputs[1:]) if x in needed or i in f.fixed)

    def inlined(inputs: Sequence[Value]) -> list[Value]:
        graph, image = inputs[0].graph, {whole.inputs[0]: inputs[0]}
        image |= {whole.inputs[i + 1]: x for i, x in zip(kept, inputs[1:], strict=True)}
        for node in whole.nodes:
            if node.op is not ops.input and not needed.isdisjoint(node.results):
                graph.copy_node(node, image)
        return [image[output] for output in whole.outputs]

    made = _graph("weights", [w, *(types[i] for i in kept)], inlined)
    fixed = frozenset(place for place, i in enumerate(kept) if i in f.fixed)
    return MatrixFunction(f.op, made, fixed), kept


def _moved(
    f: MatrixFunction,
    w: Value,
    contexts: Sequence[Value],
    moving: Sequence[Value],
    tangents: Sequence[Value],
) -> Value:
    (h,) = w.graph.inline(f.weights, [w, *contexts])
    (moved,) = jvp_in_graph(w.graph, [h], moving, tangents)
    return zeros(w.graph, h.type) if moved is None else moved


@dataclass(frozen=True)
class _Spectrum:
    """Values, and `h` with three derivatives at each; `labels` of equal values must agree."""

    w: Value
    h: tuple[Value, ...]
    labels: tuple[Value, ...]

    def mapped(self, change: Callable[[Value], Value]) -> _Spectrum:
        h, labels = (tuple(map(change, of)) for of in (self.h, self.labels))
        return _Spectrum(change(self.w), h, labels)

    def mirrored(self) -> _Spectrum:
        """Return the values with the other sign, and the odd function of them."""
        h = tuple(x if order % 2 else -x for order, x in enumerate(self.h))
        return _Spectrum(-self.w, h, self.labels)


def _spectrum(f: MatrixFunction, w: Value, contexts: Sequence[Value]) -> _Spectrum:
    graph = w.graph
    (h,) = graph.inline(f.weights, [w, *contexts])
    orders = [h]
    for _ in range(3):
        (slope,) = jvp_in_graph(graph, orders[-1:], [w], [full(graph, w.type, 1.0)])
        orders.append(zeros(graph, h.type) if slope is None else slope)
    labels = tuple(ops.cast(c, to=w.dtype) for c in contexts if _is_of_values(c, w))
    return _Spectrum(expand_to(w, h.shape), tuple(orders), labels)


def _formula(f: MatrixFunction, given: Sequence[Value], directions: Sequence[Value]) -> Value:
    _, vectors, w, contexts = f.split(given)
    at, rounding = _spectrum(f, w, contexts), rounding_of(w)
    if not directions:
        right = swap_last(vectors[0]) if f.op is ops.eigh else vectors[1]
        found: Value = ops.matmul(vectors[0] * row_of(at.h[0]), right)
        return found
    if f.op is ops.eigh:
        return _of_symmetric(at, vectors[0], directions, rounding)
    if len(directions) == 1:
        return _of_singular(at, vectors[0], vectors[1], directions[0], rounding)
    rows, columns = given[0].type.with_shape(given[0].shape[-2:]).static_shape
    wide, z = _doubled(at, vectors[0], vectors[1])
    found = _of_symmetric(wide, z, [_bordered(x) for x in directions], rounding)
    found = ops.narrow(found, axis=-2, start=0, length=rows)
    return ops.narrow(found, axis=-1, start=rows, length=columns)


def _of_symmetric(at: _Spectrum, v: Value, directions: Sequence[Value], rounding: Value) -> Value:
    vt = swap_last(v)
    first = _first(at.mapped(column_of), at.mapped(row_of), row_of(rounding))
    x, *others = (ops.matmul(vt, ops.matmul(direction, v)) for direction in directions)
    inside = first * x
    for y in others:
        second = _second(at, first, rounding)
        inside = _contracted(second, x, y) + _contracted(second, y, x)
    found: Value = ops.matmul(ops.matmul(v, inside), vt)
    return found


def _contracted(second: Value, x: Value, y: Value) -> Value:
    """Return `sum_k second_ikj x_ik y_kj`."""
    terms = second * column_of(x) * reshape_to(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    found: Value = ops.reduce_sum(terms, axes=(-2,))
    return found


def _of_singular(at: _Spectrum, u: Value, vt: Value, direction: Value, rounding: Value) -> Value:
    """Return the derivative from the vectors of `a`, which are half those of the symmetric one."""
    columns, rows = at.mapped(column_of), at.mapped(row_of)
    across = ops.matmul(direction, swap_last(vt))
    inside = ops.matmul(swap_last(u), across)
    even, odd = (0.5 * (inside + sign * swap_last(inside)) for sign in (1.0, -1.0))
    ratios = (_first(x, rows, row_of(rounding)) for x in (columns, columns.mirrored()))
    turned = ops.matmul(u, next(ratios) * even + next(ratios) * odd)
    if u.shape[-2] != u.shape[-1]:
        odd_at_0 = tuple(x if order % 2 else x * 0.0 for order, x in enumerate(at.h))
        nothing = _Spectrum(at.w * 0.0, odd_at_0, ())
        ratio = row_of(_first(nothing, at, rounding))
        turned = turned + (across - ops.matmul(u, inside)) * ratio
    found: Value = ops.matmul(turned, vt)
    return found


def _doubled(at: _Spectrum, u: Value, vt: Value) -> tuple[_Spectrum, Value]:
    """Return values and vectors of `[[0, a], [a.T, 0]]`."""
    rows, n = u.type.with_shape(u.shape[-2:]).static_shape
    v, root = swap_last(vt), 0.5**0.5
    z = ops.concat(
        ops.concat(u * root, u * root, axis=-1), ops.concat(v * root, v * -root, axis=-1), axis=-2
    )
    if rows > n:
        basis, _ = ops.qr(u, full=True)
        rest = ops.narrow(basis, axis=-1, start=n, length=rows - n)
        sides = [(0,) * (u.rank - 2) + (k, 0) for k in (0, n)]
        z = ops.concat(z, ops.pad(rest, low=sides[0], high=sides[1]), axis=-1)

    def whole(x: Value, sign: float, at_zero: float) -> Value:
        last = at_zero * ops.narrow(x, axis=-1, start=n - 1, length=1)
        parts = [x, sign * x]
        if rows > n:
            parts.append(expand_to(last, (*x.shape[:-1], rows - n)))
        joined: Value = ops.concat(*parts, axis=-1)
        return joined

    numbers = tuple(
        whole(x, 1.0, 1.0) if order % 2 else whole(x, -1.0, 0.0) for order, x in enumerate(at.h)
    )
    labels = tuple(whole(label, 1.0, 1.0) for label in at.labels)
    return _Spectrum(whole(at.w, -1.0, 0.0), numbers, labels), z


def _bordered(x: Value) -> Value:
    """Return `[[0, x], [x.T, 0]]`."""
    rows, columns = x.type.with_shape(x.shape[-2:]).static_shape
    batch = (0,) * (x.rank - 2)
    upper = ops.pad(x, low=(*batch, 0, rows), high=(*batch, columns, 0))
    found: Value = upper + swap_last(upper)
    return found


def _first(i: _Spectrum, j: _Spectrum, rounding: Value) -> Value:
    """Return `h[w_i, w_j]`: near equal values, the mean of both slopes.

    Equal values have none if `h`, its slopes or a context differ.
    """
    eps = float(np.finfo(i.w.dtype.numpy).eps)
    gap, mean = j.w - i.w, 0.5 * (i.h[1] + j.h[1])
    (rise, change, _), (sizes, slopes, curvatures) = _changes(i, j), _sizes(i, j)
    is_equal = ops.le(ops.abs(gap), rounding)
    quotient = rise / ops.where(is_equal, 0.0, gap)
    reach = ops.maximum(ops.abs(gap), rounding)
    is_continuous = ops.le(ops.abs(rise), 2.0 * slopes * reach + 64.0 * eps * sizes)
    is_smooth = ops.le(ops.abs(change), 0.01 * slopes + 4.0 * curvatures * rounding)
    same, root = _agree(i, j), eps ** (1 / 3)
    if same is not None:
        is_smooth = ops.logical_and(is_smooth, same)
    limit = ops.where(is_smooth, mean, float("nan"))
    is_close = ops.logical_and(
        ops.le(ops.abs(gap), root * ops.maximum(ops.abs(i.w), ops.abs(j.w))),
        ops.le(ops.abs(change), 8.0 * root * slopes),
    )
    is_close = is_close if same is None else ops.logical_and(is_close, same)
    near = ops.where(is_equal, limit, ops.where(is_close, mean, quotient))
    found: Value = ops.where(is_continuous, near, quotient)
    return found


def _second(at: _Spectrum, first: Value, rounding: Value) -> Value:
    """Return `h[w_i, w_k, w_j]`, `[..., i, k, j]`: a quotient by the largest distance of two.

    Near three equal values it is half the mean of their second derivatives.
    """
    root = float(np.finfo(at.w.dtype.numpy).eps) ** 0.25
    i, k, j = (at.mapped(functools.partial(_placed, place)) for place in range(3))
    ik, kj, ij = (reshape_to(first, _inserted(first, axis)) for axis in (-1, -3, -2))
    gap, rise = j.w - i.w, kj - ik
    for other, moved in ((k.w - i.w, kj - ij), (j.w - k.w, ij - ik)):
        is_wider = ops.gt(ops.abs(other), ops.abs(gap))
        gap, rise = ops.where(is_wider, other, gap), ops.where(is_wider, moved, rise)
    rounding = reshape_to(rounding, (*rounding.shape, 1, 1))
    size = ops.maximum(ops.maximum(ops.abs(i.w), ops.abs(k.w)), ops.abs(j.w))
    mean = (i.h[2] + k.h[2] + j.h[2]) / 6.0
    change = ops.abs(_changes(i, k)[2]) + ops.abs(_changes(k, j)[2])
    curvatures = ops.abs(i.h[2]) + ops.abs(k.h[2]) + ops.abs(j.h[2])
    further = ops.abs(i.h[3]) + ops.abs(k.h[3]) + ops.abs(j.h[3])
    is_equal = ops.le(ops.abs(gap), rounding)
    is_smooth = ops.le(change, 0.01 * curvatures + 8.0 * further * rounding)
    slopes = ops.abs(ik) + ops.abs(kj) + ops.abs(ij)
    is_finite = ops.lt(slopes, float("inf"))
    is_close = ops.logical_and(
        ops.le(ops.abs(gap), root * size), ops.le(change, 8.0 * root * curvatures)
    )
    for same in (is_finite, _agree(i, k), _agree(k, j)):
        if same is not None:
            is_smooth, is_close = (ops.logical_and(x, same) for x in (is_smooth, is_close))
    limit = ops.where(is_smooth, mean, float("nan"))
    quotient = rise / ops.where(is_equal, 1.0, gap)
    found: Value = ops.where(is_equal, limit, ops.where(is_close, mean, quotient))
    return found


def _placed(place: int, x: Value) -> Value:
    """Return numbers of values along one of three axes."""
    shape: list[Extent] = [1, 1, 1]
    shape[place] = x.shape[-1]
    return reshape_to(x, (*x.shape[:-1], *shape))


def _inserted(x: Value, axis: int) -> tuple[Extent, ...]:
    """Return the shape of a matrix with an axis of extent 1, which is then `axis`."""
    at = x.rank + 1 + axis
    return (*x.shape[:at], 1, *x.shape[at:])


def _changes(i: _Spectrum, j: _Spectrum) -> list[Value]:
    return [b - a for a, b in zip(i.h[:3], j.h[:3], strict=True)]


def _sizes(i: _Spectrum, j: _Spectrum) -> list[Value]:
    return [ops.abs(a) + ops.abs(b) for a, b in zip(i.h[:3], j.h[:3], strict=True)]


def _agree(i: _Spectrum, j: _Spectrum) -> Value | None:
    """True where the contexts of single values are equal; None if there are none."""
    found: Value | None = None
    for a, b in zip(i.labels, j.labels, strict=False):
        equal = ops.eq(a, b)
        found = equal if found is None else ops.logical_and(found, equal)
    return found

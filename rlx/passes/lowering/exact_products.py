"""Lowering of small-integer products to the register tiles of floats, which hold them exactly.

Every integer up to 2^24 is an f32, and so is each partial sum of products that stay below it, in
any order, with fused multiply-adds or without. An i8 product of up to 1,024 terms fits.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import Extent, product
from rlx.passes.lowering.int8_dot import (
    convolution_of_bytes,
    convolution_of_codes,
    product_of_bytes,
    product_of_codes,
)
from rlx.passes.lowering.integer_ranges import EXACT, range_of
from rlx.passes.rewrite import GraphPass, LocalRewrite, Rewritten, apply_rewrites, rewrite
from rlx.target import Target

_MOST_PARTS = 8
"""A longer sum is taken in parts; beyond this many, additions of parts cost too much."""
_WORTH = 1 << 12
"""Multiplications below which a product stays as it is."""


def _sums_integers(node: Node) -> bool:
    return node.result.dtype is DType.I32


def exact_products(target: Target) -> GraphPass:
    """Return the pass; without vectors of floats, products read their codes as stored.

    %2: i32[M, N] = matmul %0, %1  ->  %4: f32[M, N] = matmul (cast %0) (cast %1)
                                       %5: i32[M, N] = cast %4

    What reads the integers as f32 again reads the sums of the floats.
    """
    rules: list[LocalRewrite] = _in_words(target) if target.dots_bytes else []
    wide = target.vector_bytes >= 16
    rules += [_matmul, _conv, _again_in_floats] if wide else [_codes_matmul, _codes_conv]

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, rules)

    return GraphPass("exact-products", run, exact_products.__doc__ or "")


def _in_words(target: Target) -> list[LocalRewrite]:
    """Return the rules for machines that multiply four bytes at a time; they come first."""

    def product_rule(node: Node) -> Value | None:
        depth = node.operands[0].shape[-1]
        return product_of_bytes(node, target) if _is_worth(node, depth) else None

    def convolution_rule(node: Node) -> Value | None:
        taps = product(node.operands[1].shape[1:])
        return convolution_of_bytes(node, target) if _is_worth(node, taps) else None

    return [
        LocalRewrite((ops.matmul,), product_rule, _sums_integers),
        LocalRewrite((ops.conv,), convolution_rule, _sums_integers),
    ]


@rewrite(ops.matmul, when=_sums_integers)
def _codes_matmul(node: Node) -> Value | None:
    return product_of_codes(node)


@rewrite(ops.conv, when=_sums_integers)
def _codes_conv(node: Node) -> Value | None:
    return convolution_of_codes(node)


@rewrite(ops.matmul, when=_sums_integers)
def _matmul(node: Node) -> Value | None:
    a, b = node.operands
    depth = a.shape[-1]
    if not isinstance(depth, int) or not _is_worth(node, depth):
        return None
    length = _longest_sum(a, b)
    if not 0 < depth <= _MOST_PARTS * length:
        return None
    sums = [
        _in_floats(
            ops.matmul, _terms(a, -1, first, length, depth), _terms(b, -2, first, length, depth)
        )
        for first in range(0, depth, length)
    ]
    return functools.reduce(operator.add, sums)


@rewrite(ops.conv, when=_sums_integers)
def _conv(node: Node) -> Value | None:
    x, w = node.operands
    taps = product(w.shape[1:])
    if not isinstance(taps, int) or not _is_worth(node, taps) or _longest_sum(x, w) < taps:
        return None
    return _in_floats(ops.conv, x, w, **node.attrs.as_dict())


@rewrite(ops.cast, when=lambda node: node.result.dtype is DType.F32)
def _again_in_floats(node: Node) -> Value | None:
    """Take a sum that is cast back as it is: rounding it to i32 costs more than its taps.

    A sum of no value may be -0, of which the integer is 0.
    """
    (total,) = node.operands
    if total.op is not ops.cast or total.dtype is not DType.I32:
        return None
    (found,) = total.node.operands
    return found + 0.0 if _is_exact_sum(found) else None


def _is_exact_sum(value: Value) -> bool:
    """True for a product of `_in_floats`: of integers whose sums are exact in f32."""
    is_matmul = value.op is ops.matmul
    if value.dtype is not DType.F32 or not (is_matmul or value.op is ops.conv):
        return False
    operands = value.node.operands
    if any(each.op is not ops.cast for each in operands):
        return False
    a, b = (each.node.operands[0] for each in operands)
    terms = a.shape[-1] if is_matmul else product(b.shape[1:])
    return isinstance(terms, int) and terms <= _longest_sum(a, b)


def _is_worth(node: Node, depth: Extent) -> bool:
    work = product((node.result.type.elements, depth))
    return not isinstance(work, int) or work >= _WORTH


def _longest_sum(a: Value, b: Value) -> int:
    """Return how many products can be summed exactly; 0 where too little is known."""
    left, right = range_of(a), range_of(b)
    if left is None or right is None:
        return 0
    return EXACT // max(left.magnitude * right.magnitude, 1)


def _in_floats(compute: Callable[..., Any], a: Value, b: Value, **attributes: Any) -> Value:
    found = compute(ops.cast(a, to=DType.F32), ops.cast(b, to=DType.F32), **attributes)
    return ops.cast(found, to=DType.I32)


def _terms(x: Value, axis: int, first: int, length: int, depth: int) -> Value:
    """Return `length` of the `depth` terms along `axis`, or what is left of them."""
    if length >= depth:
        return x
    return ops.narrow(x, axis=axis, start=first, length=min(length, depth - first))

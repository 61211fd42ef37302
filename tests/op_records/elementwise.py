"""Uses of elementwise ops."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from tests.record_data import (
    EDGES,
    away_from_zero,
    edges,
    exactly,
    normal,
    positive,
    separate,
    ties,
    uniform,
)
from tests.records import Maker, Operand, OpRecord, over_all_dtypes

_TAIL = (7, 17)  # 119 elements: a tail at every vector width

# Ops that are smooth everywhere, or where the maker draws.
_SMOOTH: dict[OpDef, Maker] = {
    ops.neg: normal, ops.square: normal, ops.exp: normal, ops.exp2: normal, ops.expm1: normal,
    ops.sin: normal, ops.cos: normal, ops.tan: uniform(-1.2, 1.2), ops.asin: uniform(-0.9, 0.9),
    ops.acos: uniform(-0.9, 0.9), ops.atan: normal, ops.sinh: normal, ops.cosh: normal,
    ops.tanh: normal, ops.asinh: normal, ops.acosh: uniform(1.2, 4.0),
    ops.atanh: uniform(-0.9, 0.9), ops.erf: normal, ops.erfc: normal,
    ops.erf_inv: uniform(-0.95, 0.95), ops.sigmoid: normal, ops.reciprocal: away_from_zero,
    ops.sqrt: positive, ops.rsqrt: positive, ops.log: positive, ops.log1p: positive,
    ops.log2: positive, ops.abs: away_from_zero, ops.relu: away_from_zero, ops.gelu: normal,
    ops.gelu_approx: normal, ops.silu: normal, ops.softplus: normal, ops.log_sigmoid: normal,
    ops.mish: normal, ops.leaky_relu: away_from_zero, ops.elu: away_from_zero,
    ops.selu: away_from_zero, ops.hard_sigmoid: uniform(-2.5, 2.5),
    ops.hard_swish: uniform(-2.5, 2.5), ops.stop_gradient: normal, ops.complex_norm_sq: normal,
    ops.conj: normal, ops.real: normal, ops.imag: normal,
}  # fmt: skip
_STEPS = [ops.sign, ops.round, ops.floor, ops.ceil, ops.trunc]
_PREDICATES = [ops.logical_not, ops.is_nan, ops.is_finite]
_EXACT = {
    *_STEPS, *_PREDICATES, ops.neg, ops.abs, ops.relu, ops.stop_gradient, ops.conj, ops.real,
    ops.imag,
}  # fmt: skip

_ARITHMETIC: dict[OpDef, tuple[Maker, Maker]] = {
    ops.add: (normal, normal),
    ops.sub: (normal, normal),
    ops.mul: (normal, normal),
    ops.div: (normal, away_from_zero),
    ops.pow: (positive, normal),
    ops.atan2: (away_from_zero, away_from_zero),
    ops.maximum: (separate, uniform(-0.01, 0.01)),
    ops.minimum: (separate, uniform(-0.01, 0.01)),
}
_CHOICES = [
    ops.mod, ops.logical_and, ops.logical_or, ops.logical_xor, ops.bitwise_and, ops.bitwise_or,
    ops.bitwise_xor, ops.shift_left, ops.shift_right,
]  # fmt: skip
_COMPARISONS = [ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge]

# Composites square or exponentiate what a scalar function rounded.
_COMPOSITE_GROWTH = 4.0
_EDGE_LIMITS = "the sign of a zero"


def _unary(op: OpDef) -> list[OpRecord]:
    growth = 0.0 if op in _EXACT else _COMPOSITE_GROWTH if op.decompose else 1.0
    maker = _SMOOTH.get(op, normal)
    smooth = op in _SMOOTH and op is not ops.stop_gradient  # it has no derivative by decree
    return [
        over_all_dtypes(op, "tail", Operand(_TAIL, maker), smooth=smooth, growth=growth),
        over_all_dtypes(op, "edges", Operand((EDGES,), edges), growth=growth, limits=_EDGE_LIMITS),
    ]


def _binary(op: OpDef) -> list[OpRecord]:
    left, right = _ARITHMETIC.get(op, (ties, ties))
    smooth = op in _ARITHMETIC
    growth = 1.0 if smooth else 0.0
    return [
        over_all_dtypes(
            op, "equal", Operand((33,), left), Operand((33,), right), smooth=smooth, growth=growth
        ),
        over_all_dtypes(
            op, "row", Operand(_TAIL, left), Operand((17,), right), smooth=smooth, growth=growth
        ),
        over_all_dtypes(
            op, "outer", Operand((4, 1), left), Operand((1, 3), right), smooth=smooth, growth=growth
        ),
        over_all_dtypes(
            op, "edges", Operand((EDGES, 1), edges), Operand((EDGES,), edges), growth=growth,
            limits=_EDGE_LIMITS,
        ),
    ]  # fmt: skip


def _shapes() -> list[OpRecord]:
    """Broadcasts and extents that any elementwise kernel must get right, on a few ops."""
    pairs = {
        "scalar": ((), ()),
        "scalar-left": ((), (5,)),
        "size-one": ((1,), (1,)),
        "empty": ((0, 4), (1, 4)),
        "channel": ((1, 2, 3, 3), (1, 2, 1, 1)),
        "middle": ((2, 3, 4, 3, 4), (2, 3, 4, 1, 4)),
        "column": ((7, 17), (7, 1)),
        "leading": ((3, 1, 5), (2, 1)),
    }
    return [
        over_all_dtypes(op, name, Operand(a, normal), Operand(b, normal), smooth=op is ops.add)
        for op in (ops.add, ops.lt)
        for name, (a, b) in pairs.items()
    ] + [
        over_all_dtypes(ops.tanh, name, Operand(shape, normal), smooth=True)
        for name, shape in {"scalar": (), "size-one": (1, 1), "empty": (3, 0)}.items()
    ]


def _norms() -> list[OpRecord]:
    pair = (Operand(_TAIL, normal), Operand(_TAIL, away_from_zero))
    row = (Operand((5, 17), normal), Operand((17,), away_from_zero))
    root = over_all_dtypes(
        ops.root_of_powers, "tail", Operand(_TAIL, positive), order=3.0, smooth=True,
        growth=_COMPOSITE_GROWTH,
    )  # fmt: skip
    return [
        over_all_dtypes(op, name, *operands, smooth=True, growth=_COMPOSITE_GROWTH)
        for op in (ops.divide_or_zero, ops.hypot)
        for name, operands in (("tail", pair), ("row", row))
    ] + [root]


def _where() -> list[OpRecord]:
    shapes = {
        "equal": (_TAIL, _TAIL, _TAIL),
        "broadcast": ((7, 1), (17,), (7, 17)),
        "scalar": ((), (33,), ()),
        "empty": ((0,), (0,), (1,)),
    }
    found = [
        over_all_dtypes(
            ops.where, name, Operand(c, normal, DType.BOOL), Operand(a, normal), Operand(b, normal),
            smooth=True, growth=0.0,
        )
        for name, (c, a, b) in shapes.items()
    ]  # fmt: skip
    conditions = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.I32, DType.I64, DType.U8)
    return found + [
        OpRecord(
            ops.where, f"condition-{dtype}",
            (Operand((EDGES,), edges, dtype), Operand((EDGES,), edges), Operand((EDGES,), normal)),
            growth=0.0,
        )
        for dtype in conditions
    ]  # fmt: skip


def _cast() -> list[OpRecord]:
    found = []
    for to in DType:
        sources = tuple(d for d in DType if not d.is_complex or to in _FROM_COMPLEX)
        for name, operand in {
            "tail": Operand(_TAIL, uniform(0.0, 40.0)),
            "edges": Operand((EDGES,), edges),
        }.items():
            found.append(
                OpRecord(ops.cast, f"to-{to}-{name}", (operand,), {"to": to}, sources, growth=0.0)
            )
    found += [
        OpRecord(
            ops.cast,
            f"to-{to}-boundaries",
            (Operand((len(_BOUNDARIES),), exactly(_BOUNDARIES)),),
            {"to": to},
            (DType.F64, DType.F32),
            growth=0.0,
        )
        for to in DType
    ]
    floats = (DType.F16, DType.BF16, DType.F32, DType.F64)
    return found + [
        OpRecord(
            ops.cast, f"to-{to}-away", (Operand((EDGES,), edges),),
            {"to": to, "rounding": "away"}, floats, growth=0.0,
        )
        for to in (DType.I8, DType.U8, DType.I32, DType.I64)
    ]  # fmt: skip


# Halves, the ends of every integer range, overflow of f16, bf16 and f32, and numbers that
# rounding twice, through f32, would round wrongly to bf16.
_BOUNDARIES = [
    *(sign * (2.0**bits + offset) for sign in (1, -1) for bits in (7, 8, 15, 16, 31, 32, 63)
      for offset in (-1.0, -0.5, 0.0)),
    65504.0, 65519.0, 65520.0, 1e5, 3.38e38, 3.3961775e38, 1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40,
    1 + 3 * 2.0**-8 - 2.0**-40, 2.0**-25, 1e-40, 5e-324,
]  # fmt: skip
_FROM_COMPLEX = (DType.F32, DType.F64, DType.BOOL, DType.C64, DType.C128)

_COMPLEX = OpRecord(
    ops.complex, "row", (Operand((3, 5), normal), Operand((5,), normal)),
    dtypes=(DType.F32, DType.F64), growth=0.0,
)  # fmt: skip

_SAME_SIZE = {
    DType.F32: (DType.I32, DType.U32, DType.F32),
    DType.F64: (DType.I64, DType.U64),
    DType.F16: (DType.U16, DType.BF16),
    DType.I16: (DType.F16, DType.BF16),
    DType.U8: (DType.I8,),
}


def _bitcast() -> list[OpRecord]:
    return [
        OpRecord(
            ops.bitcast, f"{source}-as-{to}", (Operand(_TAIL, normal),), {"to": to}, (source,),
            growth=0.0,
        )
        for source, targets in _SAME_SIZE.items()
        for to in targets
    ]  # fmt: skip


_NAMED = [
    OpRecord(
        op, "tail", (Operand(_TAIL, normal),), {by: "scores"}, tuple(DType), smooth=True,
        growth=0.0,
    )
    for op, by in ((ops.named, "name"), (ops.vary, "axis_name"))
]  # fmt: skip

RECORDS: list[OpRecord] = [
    *(record for op in (*_SMOOTH, *_STEPS, *_PREDICATES) for record in _unary(op)),
    *(record for op in (*_ARITHMETIC, *_CHOICES, *_COMPARISONS) for record in _binary(op)),
    *_shapes(),
    *_norms(),
    *_where(),
    *_cast(),
    *_bitcast(),
    _COMPLEX,
    *_NAMED,
]

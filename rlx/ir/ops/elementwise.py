"""Elementwise ops: arithmetic, comparison, selection, casts and scalar functions.

Unary, binary and comparison ops are one line each: name, meaning, the dtypes it takes.
Binary operands broadcast as in NumPy and, when a graph is built, promote to a common dtype.
Formulas over these ops (`gelu`, `silu`, ...) live in `activation`.
"""

from __future__ import annotations

from rlx.errors import DTypeError
from rlx.ir.declaration import SingleResultOp, declare_op, op
from rlx.ir.dtype import DType
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import require_dtype, require_same_dtype
from rlx.ir.shape import broadcast_shapes
from rlx.ir.types import TensorType

_FAMILY = "elementwise"
_NUMERIC = "float int complex"
_REAL = "float int"
_EXACT, _CHEAP, _MODERATE, _EXPENSIVE = Trait.EXACT, Trait.CHEAP, Trait.MODERATE, Trait.EXPENSIVE
_NONNEGATIVE = Trait.NONNEGATIVE


def unary(
    name: str, doc: str, takes: str, *traits: Trait, gives: DType | None = None
) -> SingleResultOp:
    """Declare an elementwise op of one operand; `gives` is its dtype if not the operand's."""

    def infer(x: TensorType) -> TensorType:
        require_dtype(x, takes)
        return x if gives is None else x.with_dtype(gives)

    return declare_op(
        name, _FAMILY, infer, traits=(Trait.ELEMENTWISE, Trait.IN_PLACE, *traits), doc=doc
    )


def binary(
    name: str, doc: str, takes: str, *traits: Trait, gives: DType | None = None
) -> SingleResultOp:
    """Declare an elementwise op of two broadcasting operands of one dtype."""

    def infer(a: TensorType, b: TensorType) -> TensorType:
        dtype = require_same_dtype(a, b)
        require_dtype(a, takes)
        return TensorType(gives or dtype, broadcast_shapes(a.shape, b.shape))

    always = (Trait.ELEMENTWISE, Trait.IN_PLACE, Trait.PROMOTES)
    return declare_op(name, _FAMILY, infer, traits=(*always, *traits), doc=doc)


def compare(name: str, doc: str, takes: str, *traits: Trait) -> SingleResultOp:
    """Declare a comparison: a bool result; every ordering with a NaN is false."""
    return binary(name, doc, takes, *traits, gives=DType.BOOL)


# Sign and rounding
neg = unary("neg", "`-x`; integers wrap.", _NUMERIC, Trait.LINEAR, _EXACT, _CHEAP)
abs = unary(
    "abs", "Magnitude; the smallest integer wraps to itself.", _REAL, _EXACT, _CHEAP, _NONNEGATIVE
)
sign = unary("sign", "-1, 0 or 1; a NaN stays NaN.", _REAL, _EXACT, _CHEAP)
round = unary(
    "round", "Nearest integer, halves to even; integers unchanged.", _REAL, _EXACT, _MODERATE
)
floor = unary(
    "floor", "Largest integer not above `x`; integers unchanged.", _REAL, _EXACT, _MODERATE
)
ceil = unary(
    "ceil", "Smallest integer not below `x`; integers unchanged.", _REAL, _EXACT, _MODERATE
)
trunc = unary("trunc", "Integer part, towards zero; integers unchanged.", _REAL, _EXACT, _MODERATE)

# Powers, exponentials and logarithms
square = unary("square", "`x * x`; integers wrap.", _NUMERIC, _CHEAP)
reciprocal = unary("reciprocal", "`1 / x`; 1/0 is an infinity.", "float complex", _MODERATE)
sqrt = unary(
    "sqrt",
    "Square root; NaN below zero, the principal branch of complex numbers.",
    "float complex",
    _MODERATE,
)
rsqrt = unary("rsqrt", "`1 / sqrt(x)`; +inf at +0.", "float complex", _MODERATE)
exp = unary("exp", "e to the power of `x`.", "float complex", _EXPENSIVE, _NONNEGATIVE)
exp2 = unary("exp2", "2 to the power of `x`.", "float complex", _EXPENSIVE)
expm1 = unary("expm1", "`exp(x) - 1`, exact near zero.", "float complex", _EXPENSIVE)
log = unary("log", "Natural logarithm; -inf at zero, NaN below.", "float complex", _EXPENSIVE)
log1p = unary("log1p", "`log(1 + x)`, exact near zero.", "float complex", _EXPENSIVE)
log2 = unary("log2", "Logarithm to base 2.", "float complex", _EXPENSIVE)

# Trigonometric and hyperbolic functions
sin = unary("sin", "Sine of an angle in radians.", "float complex", _EXPENSIVE)
cos = unary("cos", "Cosine of an angle in radians.", "float complex", _EXPENSIVE)
tan = unary("tan", "Tangent of an angle in radians.", "float complex", _EXPENSIVE)
asin = unary("asin", "Arcsine; NaN outside [-1, 1].", "float complex", _EXPENSIVE)
acos = unary("acos", "Arccosine; NaN outside [-1, 1].", "float complex", _EXPENSIVE)
atan = unary("atan", "Arctangent.", "float complex", _EXPENSIVE)
sinh = unary("sinh", "Hyperbolic sine.", "float complex", _EXPENSIVE)
cosh = unary("cosh", "Hyperbolic cosine.", "float complex", _EXPENSIVE)
tanh = unary("tanh", "Hyperbolic tangent.", "float complex", _EXPENSIVE)
asinh = unary("asinh", "Inverse hyperbolic sine.", "float complex", _EXPENSIVE)
acosh = unary("acosh", "Inverse hyperbolic cosine; NaN below 1.", "float complex", _EXPENSIVE)
atanh = unary(
    "atanh", "Inverse hyperbolic tangent; infinite at -1 and 1.", "float complex", _EXPENSIVE
)
erf = unary("erf", "Error function.", "float", _EXPENSIVE)
erfc = unary("erfc", "`1 - erf(x)`, exact in the tail.", "float", _EXPENSIVE)
erf_inv = unary(
    "erf_inv",
    "Inverse of `erf` by Giles' polynomials, with the roundings that JAX has; NaN beyond 1.",
    "float",
    _EXPENSIVE,
)

# Activations with a scalar function of their own
relu = unary("relu", "`max(x, 0)`; a NaN stays NaN.", _REAL, _EXACT, _CHEAP)
sigmoid = unary(
    "sigmoid", "`1 / (1 + exp(-x))`, without overflow.", "float", _EXPENSIVE, _NONNEGATIVE
)

# Predicates
logical_not = unary("logical_not", "Negation of a bool.", "bool", _CHEAP, gives=DType.BOOL)
is_nan = unary("is_nan", "True where `x` is NaN.", "float", _MODERATE, gives=DType.BOOL)
is_finite = unary(
    "is_finite", "True where `x` is neither infinite nor NaN.", "float", _MODERATE, gives=DType.BOOL
)

# Arithmetic
add = binary("add", "`a + b`; integers wrap.", _NUMERIC, Trait.COMMUTATIVE, Trait.LINEAR, _CHEAP)
sub = binary("sub", "`a - b`; integers wrap.", _NUMERIC, Trait.LINEAR, _CHEAP)
mul = binary("mul", "`a * b`; integers wrap.", _NUMERIC, Trait.COMMUTATIVE, Trait.BILINEAR, _CHEAP)
div = binary(
    "div",
    "`a / b`; integers truncate towards zero, x/0 is 0 and MIN/-1 is MIN.",
    _NUMERIC,
    _MODERATE,
)
pow = binary(
    "pow",
    "`a` to the power of `b`; integers wrap, and negative powers are -1, 0 or 1.",
    _NUMERIC,
    _EXPENSIVE,
)
mod = binary(
    "mod", "Remainder with the sign of `b`; integers give 0 for `b` = 0.", _REAL, _EXPENSIVE
)
atan2 = binary("atan2", "Angle of the point (b, a), in (-pi, pi].", "float", _EXPENSIVE)
maximum = binary(
    "maximum",
    "The larger; NaN if either is NaN, `or` for bools.",
    "float int bool",
    Trait.COMMUTATIVE,
    _EXACT,
    _CHEAP,
)
minimum = binary(
    "minimum",
    "The smaller; NaN if either is NaN, `and` for bools.",
    "float int bool",
    Trait.COMMUTATIVE,
    _EXACT,
    _CHEAP,
)
logical_and = binary("logical_and", "Conjunction of bools.", "bool", Trait.COMMUTATIVE, _CHEAP)
logical_or = binary("logical_or", "Disjunction of bools.", "bool", Trait.COMMUTATIVE, _CHEAP)
logical_xor = binary(
    "logical_xor", "Exclusive disjunction of bools.", "bool", Trait.COMMUTATIVE, _CHEAP
)

# Bits of integers
bitwise_and = binary("bitwise_and", "Bits that are set in both.", "int", Trait.COMMUTATIVE, _CHEAP)
bitwise_or = binary("bitwise_or", "Bits that are set in either.", "int", Trait.COMMUTATIVE, _CHEAP)
bitwise_xor = binary(
    "bitwise_xor", "Bits that are set in one of both.", "int", Trait.COMMUTATIVE, _CHEAP
)
shift_left = binary(
    "shift_left",
    "Bits moved up by `b`; 0 where `b` is negative or at least their number.",
    "int",
    _CHEAP,
)
shift_right = binary(
    "shift_right",
    "Bits moved down by `b`, which copies the sign of signed integers; all bits are the sign's "
    "where `b` is negative or at least their number.",
    "int",
    _CHEAP,
)

# Comparison
eq = compare("eq", "`a == b`.", "float int complex bool", Trait.COMMUTATIVE, _CHEAP)
ne = compare("ne", "`a != b`; true for NaN.", "float int complex bool", Trait.COMMUTATIVE, _CHEAP)
lt = compare("lt", "`a < b`.", "float int bool", _CHEAP)
le = compare("le", "`a <= b`.", "float int bool", _CHEAP)
gt = compare("gt", "`a > b`.", "float int bool", _CHEAP)
ge = compare("ge", "`a >= b`.", "float int bool", _CHEAP)


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.IN_PLACE, Trait.PROMOTES, _EXACT)
def where(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    """`a` where `condition` is nonzero (NaN is), else `b`; the chosen bits are copied."""
    require_dtype(condition, "bool float int", "condition")
    dtype = require_same_dtype(a, b)
    return TensorType(dtype, broadcast_shapes(condition.shape, a.shape, b.shape))


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.IN_PLACE)
def cast(x: TensorType, *, to: DType, rounding: str = "trunc") -> TensorType:
    """Convert to another dtype.

    Float to integer truncates (`rounding="away"`: nearest, halves away from zero), saturates
    at the type's range and takes NaN to 0. Integer to integer wraps. Into floats rounds to
    nearest even. To bool means `x != 0`. Complex numbers keep their real part in f32 and f64 and
    convert to nothing else but bool and each other.
    """
    if rounding not in ("trunc", "away"):
        raise DTypeError(
            f"rounding is {rounding!r}; it must be 'trunc' or 'away'",
            remedy="pass rounding='trunc' or rounding='away'",
        )
    if x.dtype.is_complex and not (to.is_complex or to in (DType.F32, DType.F64, DType.BOOL)):
        raise DTypeError(
            f"{x.dtype} does not convert to {to}; it converts to f32, f64 and bool",
            remedy="take the real part first",
        )
    return x.with_dtype(to)


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.IN_PLACE, _EXACT)
def bitcast(x: TensorType, *, to: DType) -> TensorType:
    """Read the bits of each element as one of another dtype of the same size."""
    require_dtype(x, "float int")
    if not (to.is_float or to.is_int) or to.size != x.dtype.size:
        raise DTypeError(
            f"the bits of {x.dtype}, {x.dtype.size} bytes, cannot be read as {to}",
            remedy="name a float or integer dtype of the same size",
        )
    return x.with_dtype(to)


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.VIEW, _EXACT)
def stop_gradient(x: TensorType) -> TensorType:
    """The identity, through which no derivative passes."""
    return x


@op(_FAMILY, Trait.ELEMENTWISE, _MODERATE)
def complex_norm_sq(z: TensorType) -> TensorType:
    """`re * re + im * im`, of the parts' dtype."""
    require_dtype(z, "complex")
    return z.with_dtype(z.dtype.part)


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.IN_PLACE, Trait.LINEAR)
def conj(z: TensorType) -> TensorType:
    """The complex conjugate."""
    require_dtype(z, "complex")
    return z


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.LINEAR)
def real(z: TensorType) -> TensorType:
    """The real part, of its own dtype."""
    require_dtype(z, "complex")
    return z.with_dtype(z.dtype.part)


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.LINEAR)
def imag(z: TensorType) -> TensorType:
    """The imaginary part, of its own dtype."""
    require_dtype(z, "complex")
    return z.with_dtype(z.dtype.part)


@op(_FAMILY, Trait.ELEMENTWISE, _CHEAP, Trait.LINEAR)
def complex(re: TensorType, im: TensorType) -> TensorType:
    """The complex number `re + i * im`: c64 of f32 parts, c128 of f64 parts."""
    require_dtype(re, "f32 f64", "re")
    dtype = require_same_dtype(re, im).with_parts
    return TensorType(dtype, broadcast_shapes(re.shape, im.shape))

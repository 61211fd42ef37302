"""Expressions of the loop language in C."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlx.codegen.c import scalars, vectors
from rlx.codegen.c.code import Code, Level, call, infix
from rlx.codegen.c.names import variable_name
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.c.spelling import hexadecimal, literal, scalar_type
from rlx.codegen.c.uses import is_index
from rlx.codegen.c.vectors import mask_type
from rlx.codegen.loops.nodes import (
    Address,
    Binary,
    BinaryOp,
    Bitcast,
    Buffer,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    DotBf16,
    DotBytes,
    Expr,
    Fma,
    Fold,
    Function,
    Lane,
    Load,
    LookupBytes,
    Prim,
    Ramp,
    Select,
    Shuffle,
    Splat,
    Unary,
    ValueType,
    Var,
)
from rlx.codegen.loops.visit import operands

_ANY_MASK = 4
"""Lane bytes of a mask that no comparison has given a width."""


_BITWISE = (BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR)
_SHIFTS = (BinaryOp.SHL, BinaryOp.LSHR)


class ExpressionEmitter:
    """Emits the expressions of one kernel or function.

    `names` holds the names of variables and buffers in C, where that is not their own name;
    `indices` are the variables whose i64 arithmetic prints plainly (see `uses.index_variables`);
    `request` returns the C name of a math function at a number of lanes.
    """

    def __init__(
        self,
        prelude: Prelude,
        names: Mapping[str, str],
        indices: set[str],
        request: Callable[[Function, int], str],
    ) -> None:
        self.prelude = prelude
        self._names = names
        self.indices = indices
        self._request = request
        self._mask_sizes: dict[str, int] = {}

    # Types

    def declare(self, var: Var, value: Expr) -> str:
        """Return the C type of a variable that starts as `value`."""
        if var.type.lanes > 1 and var.type.prim is Prim.BOOL:
            self._mask_sizes[var.name] = self.mask_size(value)
        return self.type_of(var)

    def type_of(self, var: Var) -> str:
        if var.type.lanes == 1:
            return scalar_type(var.type.prim)
        if var.type.prim is Prim.BOOL:
            size = self._mask_sizes.setdefault(var.name, _ANY_MASK)
            return self.prelude.vector(mask_type(var.type.lanes, size))
        return self.prelude.vector(var.type)

    def mask_size(self, expr: Expr) -> int:
        """Return the lane bytes of a vector of bools."""
        match expr:
            case Compare(_, a, _) | Cast(a, _):
                return self.mask_size(a) if a.type.prim is Prim.BOOL else a.type.prim.size
            case Var(name, _):
                return self._mask_sizes.get(name, _ANY_MASK)
            case Load():
                return 1
            case Unary(_, a):
                return self.mask_size(a)
            case Binary(_, a, b) | Select(_, a, b) | Shuffle(a, b, _):
                return self._wider(a, b)
            case _:
                return _ANY_MASK

    def _wider(self, a: Expr, b: Expr) -> int:
        sizes = [self.mask_size(x) for x in (a, b) if not isinstance(x, (Const, Splat))]
        return max(sizes, default=_ANY_MASK)

    # Entry points

    def name(self, name: str) -> str:
        """Return what C calls a variable or buffer."""
        return self._names.get(name) or variable_name(name)

    def text(self, expr: Expr) -> str:
        return self.code(expr).text

    def assigned(self, var: Var, value: Expr) -> str:
        """Return `value` in the representation of `var`."""
        if var.type.lanes > 1 and var.type.prim is Prim.BOOL:
            return self.mask(value, self._mask_sizes[var.name]).text
        if var.name in self.indices:
            return self.index(value).text
        return self.text(value)

    def index(self, expr: Expr) -> Code:
        """Emit an index or bound: sums and products print plainly."""
        match expr:
            case Binary(BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL as op, a, b):
                return scalars.index_binary(self.prelude, op, self.index(a), self.index(b))
            case Binary(BinaryOp.MIN | BinaryOp.MAX as op, a, b):
                return scalars.index_binary(self.prelude, op, self.index(a), self.index(b))
            case Select(condition, a, b):
                test = self.code(condition)
                return scalars.select(Prim.I64, test, self.index(a), self.index(b))
            case _:
                return self.code(expr)

    def address(self, address: Address) -> Code:
        """Emit a pointer argument: `x + 4`, or `(const void *)(arena + 1024)` for other types.

        From void it becomes what the function takes. A cast to that would make compilers ask
        whether bytes are aligned, which the plan has seen to.
        """
        code = self.pointer(address.buffer, address.index)
        if address.prim is address.buffer.prim:
            return code
        const = "" if address.writable else "const "
        return Code(f"({const}void *){code.at(Level.UNARY)}", Level.UNARY)

    def pointer(self, buffer: Buffer, index: Expr) -> Code:
        """Emit the address of an element: `x + row * 4 + j`."""
        name, at = self.name(buffer.name), self.index(index)
        if at.text == "0":
            return Code(name)
        # Terms may be added one by one where none leads out of the array on the way.
        steps = at.text if at.level is Level.SUM and "-" not in at.text else at.at(Level.PRODUCT)
        return Code(f"{name} + {steps}", Level.SUM)

    def stored(self, value: Expr) -> Code:
        """Emit a vector as a store takes it: bools as bytes of 0 and 1."""
        if value.type.prim is not Prim.BOOL:
            return self.code(value)
        return Code(f"-{self.mask(value, 1).at(Level.UNARY)}", Level.UNARY)  # a true lane is -1

    def element(self, address: Address | Load) -> str:
        return f"{self.name(address.buffer.name)}[{self.index(address.index).text}]"

    # Expressions

    def code(self, expr: Expr) -> Code:
        if expr.type.lanes > 1:
            if expr.type.prim is Prim.BOOL:
                return self.mask(expr, self.mask_size(expr))
            return self._vector(expr, expr.type)
        return self._scalar(expr)

    def _scalar(self, expr: Expr) -> Code:
        prim = expr.type.prim
        match expr:
            case Const():
                text = self.prelude.place(expr) or literal(expr)
                return Code(text, Level.UNARY if text[0] in "-(" else Level.POSTFIX)
            case Var(name, _):
                return Code(self.name(name))
            case Load():
                return Code(self.element(expr))
            case Unary(op, x):
                return scalars.unary(self.prelude, op, prim, self.code(x))
            case Binary(op, a, b):
                return self._scalar_binary(expr, op, a, b)
            case Compare(relation, a, b):
                return infix(self.code(a), scalars.COMPARE_SIGNS[relation], self.code(b))
            case Select(condition, a, b):
                return scalars.select(prim, self.code(condition), self.code(a), self.code(b))
            case Fma(a, b, c):
                name = "fmaf" if prim is Prim.F32 else "fma"
                return call(name, *map(self.code, (a, b, c)))
            case DotBytes():
                return call(self.prelude.byte_dot(expr.a.type), *map(self.code, operands(expr)))
            case LookupBytes(table, x):
                return self._lookup(table, x)
            case DotBf16():
                return call(self.prelude.bf16_dot(expr.type.lanes), *map(self.code, operands(expr)))
            case Cast(x, target):
                return scalars.convert(x.type.prim, target, self.code(x))
            case Bitcast(x, target):
                return scalars.reinterpret(self.prelude, x.type.prim, target, self.code(x))
            case Splat(x, _) | Ramp(x, _):
                return self.code(x)
            case Shuffle(a, b, (position,)):
                return self._picked(a, b, position)
            case Lane(x, position):
                return self._lane(x, position)
            case Fold(op, x):
                return self._fold(op, x)
            case Call(function, args):
                return call(self._request(function, 1), *map(self.code, args))
            case _:
                raise TypeError(f"{type(expr).__name__} is not a scalar expression")

    def _scalar_binary(self, expr: Binary, op: BinaryOp, a: Expr, b: Expr) -> Code:
        prim = expr.type.prim
        left, right = map(self._mask_code if op in _BITWISE else self.code, (a, b))
        if prim is Prim.I64 and is_index(expr, self.indices):
            return scalars.index_binary(self.prelude, op, left, right)
        if prim is Prim.I64 and isinstance(a, Const) and abs(a.value) < 1 << 31:
            left = Code(f"INT64_C({left.text})")
        return scalars.binary(self.prelude, op, prim, left, right)

    def _mask_code(self, expr: Expr) -> Code:
        """Print an operand of a bitwise operation: literals in hexadecimal."""
        if isinstance(expr, Const) and expr.type.prim.is_int and not expr.name and expr.value > 9:
            return Code(hexadecimal(expr))
        return self.code(expr)

    def _lane(self, x: Expr, position: int) -> Code:
        code = vectors.lane(self.code(x), position)
        return infix(code, "!=", Code("0")) if x.type.prim is Prim.BOOL else code

    def _picked(self, a: Expr, b: Expr, position: int) -> Code:
        lanes = a.type.lanes
        source, lane = (a, position) if position < lanes else (b, position - lanes)
        return self.code(source) if lanes == 1 else self._lane(source, lane)

    def _fold(self, op: BinaryOp, x: Expr) -> Code:
        if x.type.prim is not Prim.BOOL:
            return vectors.fold(self.prelude, op, x.type, self.code(x))
        type = mask_type(x.type.lanes, self.mask_size(x))
        return infix(vectors.fold(self.prelude, op, type, self.code(x)), "!=", Code("0"))

    def _vector(self, expr: Expr, type: ValueType) -> Code:
        prelude = self.prelude
        match expr:
            case Const():
                return call(prelude.splat(type), self._one_lane(expr))
            case Var(name, _):
                return Code(self.name(name))
            case Load(buffer, index, _):
                return call(prelude.load(type), self.pointer(buffer, index))
            case Unary(op, x):
                return vectors.unary(prelude, op, type, self.code(x))
            case Binary(op, a, b):
                return self._vector_binary(op, type, a, b)
            case Select(condition, a, b):
                size = type.prim.size
                function = prelude.select(type, mask_type(type.lanes, size))
                return call(function, self.mask(condition, size), self.code(a), self.code(b))
            case Fma(a, b, c):
                return call(prelude.vector_fma(type), *map(self.code, (a, b, c)))
            case DotBytes():
                dots = prelude.byte_dot_squares if expr.squares else prelude.byte_dot
                return call(dots(expr.a.type), *map(self.code, operands(expr)))
            case LookupBytes(table, x):
                return self._lookup(table, x)
            case DotBf16():
                return call(prelude.bf16_dot(type.lanes), *map(self.code, operands(expr)))
            case Cast(x, _):
                return self._vector_cast(x, type)
            case Bitcast(x, _):
                return Code(f"({prelude.vector(type)}){self.code(x).at(Level.UNARY)}", Level.UNARY)
            case Splat(x, _):
                return self._splat(x, type)
            case Ramp(base, _):
                return vectors.ramp(prelude, type, self.index(base))
            case Shuffle(a, b, positions):
                return vectors.shuffle(prelude, a.type, self.code(a), self.code(b), positions)
            case Call(function, args):
                return call(self._request(function, type.lanes), *map(self.code, args))
            case _:
                raise TypeError(f"{expr!r} is not a vector expression")

    def _vector_binary(self, op: BinaryOp, type: ValueType, a: Expr, b: Expr) -> Code:
        takes_scalars = vectors.takes_scalars(op, type.prim)
        if op in _SHIFTS:
            if takes_scalars and isinstance(b, (Const, Splat)):
                return vectors.shift(self.prelude, op, type, self.code(a), self._one_lane(b))
            takes_scalars = False
        left, right = self._operands(a, b, takes_scalars, op in _BITWISE)
        return vectors.binary(self.prelude, op, type, left, right)

    def _operands(
        self, a: Expr, b: Expr, takes_scalars: bool, is_bitwise: bool = False
    ) -> tuple[Code, Code]:
        """Emit vector operands; one may stay a scalar where C spreads it over the lanes."""
        if takes_scalars:
            if isinstance(b, (Const, Splat)):
                return self.code(a), self._one_lane(b, is_bitwise)
            if isinstance(a, (Const, Splat)):
                return self._one_lane(a, is_bitwise), self.code(b)
        return self.code(a), self.code(b)

    def _one_lane(self, x: Const | Splat, is_bitwise: bool = False) -> Code:
        lane = x.x if isinstance(x, Splat) else Const(x.value, ValueType(x.type.prim))
        return self._mask_code(lane) if is_bitwise else self.code(lane)

    def _splat(self, x: Expr, type: ValueType) -> Code:
        return call(self.prelude.splat(type), self.code(x))

    def _lookup(self, table: tuple[int, ...], x: Expr) -> Code:
        """Emit a lookup of bytes; the table is two words of eight bytes, the first lowest."""
        halves = (int.from_bytes(bytes(half), "little") for half in (table[:8], table[8:]))
        words = (Code(f"UINT64_C(0x{half:016x})") for half in halves)
        return call(self.prelude.byte_lookup(x.type.lanes), self.code(x), *words)

    def _vector_cast(self, x: Expr, type: ValueType) -> Code:
        if x.type.prim is not Prim.BOOL:
            return vectors.convert(self.prelude, x.type, type, self.code(x))
        source = mask_type(x.type.lanes, self.mask_size(x))
        ones = Code(f"-{self.code(x).at(Level.UNARY)}", Level.UNARY)  # a true lane is -1
        return vectors.convert(self.prelude, source, type, ones)

    # Masks

    def mask(self, expr: Expr, size: int) -> Code:
        """Emit a vector of bools with lanes of `size` bytes."""
        type = mask_type(expr.type.lanes, size)
        if isinstance(expr, (Const, Splat)):
            return self._splat_mask(expr, type)
        own = self.mask_size(expr)
        code = self._mask(expr, own)
        if own == size:
            return code
        return vectors.convert(self.prelude, mask_type(type.lanes, own), type, code)

    def _splat_mask(self, expr: Const | Splat, type: ValueType) -> Code:
        if isinstance(expr, Const):
            return call(self.prelude.splat(type), Code("-1" if expr.value else "0"))
        chosen = scalars.select(type.prim, self.code(expr.x), Code("-1"), Code("0"))
        return call(self.prelude.splat(type), chosen)

    def _mask(self, expr: Expr, size: int) -> Code:
        prelude, lanes = self.prelude, expr.type.lanes
        match expr:
            case Var(name, _):
                return Code(self.name(name))
            case Load(buffer, index, _):
                bytes_type = ValueType(Prim.I8, lanes)
                raw = call(prelude.load(expr.type), self.pointer(buffer, index))
                zero = call(prelude.splat(bytes_type), Code("0"))
                return vectors.compare(prelude, _NE, bytes_type, raw, zero)
            case Unary(_, x):
                return vectors.unary(prelude, expr.op, mask_type(lanes, size), self.mask(x, size))
            case Binary(op, a, b):
                return vectors.binary(
                    prelude, op, mask_type(lanes, size), self.mask(a, size), self.mask(b, size)
                )
            case Compare(relation, a, b):
                return self._compare(relation, a, b, size)
            case Cast(x, _):
                return self._compare(_NE, x, Const(0, ValueType(x.type.prim, lanes)), size)
            case Select(condition, a, b):
                type = mask_type(lanes, size)
                function = prelude.select(type, type)
                return call(function, *(self.mask(x, size) for x in (condition, a, b)))
            case Shuffle(a, b, positions):
                mask = mask_type(a.type.lanes, size)
                left, right = self.mask(a, size), self.mask(b, size)
                return vectors.shuffle(prelude, mask, left, right, positions)
            case Call(function, args):
                return call(self._request(function, lanes), *map(self.code, args))
            case _:
                raise TypeError(f"{expr!r} is not a vector of bools")

    def _compare(self, relation: CompareOp, a: Expr, b: Expr, size: int) -> Code:
        if a.type.prim is not Prim.BOOL:
            left, right = self._operands(a, b, vectors.compares_scalars(a.type.prim))
            return vectors.compare(self.prelude, relation, a.type, left, right)
        type = mask_type(a.type.lanes, size)
        # A true lane is -1, which orders below 0: compare with the sides exchanged.
        return vectors.compare(self.prelude, relation, type, self.mask(b, size), self.mask(a, size))


_NE = CompareOp.NE

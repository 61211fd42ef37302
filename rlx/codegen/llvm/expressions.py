"""Expressions of the loop language as LLVM instructions.

Every method returns the operand that holds the value: a register, an argument or a literal.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

from rlx.codegen.llvm.bf16_dots import bf16_dot_intrinsic, call_bf16_dot
from rlx.codegen.llvm.byte_dots import byte_dot_intrinsic, call_byte_dot
from rlx.codegen.llvm.byte_lookups import byte_lookup_intrinsic, call_byte_lookup
from rlx.codegen.llvm.half_conversions import convert_half, half_steps
from rlx.codegen.llvm.spelling import (
    intrinsic_suffix,
    literal,
    memory_name,
    prim_name,
    type_name,
)
from rlx.codegen.llvm.writer import FunctionWriter, ModuleWriter
from rlx.codegen.loops.bf16_dots import expanded_bf16
from rlx.codegen.loops.byte_dots import expanded
from rlx.codegen.loops.byte_lookups import expanded_lookup
from rlx.codegen.loops.nodes import (
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
    UnaryOp,
    ValueType,
    Var,
)
from rlx.codegen.loops.passes.vectorize_functions import lift_function

_FLOAT_UNARY = {
    UnaryOp.ABS: "fabs",
    UnaryOp.SQRT: "sqrt",
    UnaryOp.FLOOR: "floor",
    UnaryOp.CEIL: "ceil",
    UnaryOp.TRUNC: "trunc",
    UnaryOp.ROUND_EVEN: "roundeven",
}
_FLOAT_BINARY = {
    BinaryOp.ADD: "fadd",
    BinaryOp.SUB: "fsub",
    BinaryOp.MUL: "fmul",
    BinaryOp.DIV: "fdiv",
}
_SIGNED_BINARY = {BinaryOp.DIV: "sdiv", BinaryOp.MOD: "srem", BinaryOp.SHR: "ashr"}
_UNSIGNED_BINARY = {BinaryOp.DIV: "udiv", BinaryOp.MOD: "urem", BinaryOp.SHR: "lshr"}
_INT_BINARY = {
    BinaryOp.ADD: "add",
    BinaryOp.SUB: "sub",
    BinaryOp.MUL: "mul",
    BinaryOp.AND: "and",
    BinaryOp.OR: "or",
    BinaryOp.XOR: "xor",
    BinaryOp.SHL: "shl",
    BinaryOp.LSHR: "lshr",
}
_PICKS = {BinaryOp.MIN: CompareOp.LT, BinaryOp.MAX: CompareOp.GT}

_SMALL = 1 << 30
_INDEX = ValueType(Prim.I64)


class ExpressionEmitter:
    """Emits expressions into one function."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer
        self.values: dict[str, str] = {}
        """Operands of immutable variables."""
        self.slots: dict[str, str] = {}
        """Stack slots of mutable variables; LLVM turns them into registers."""
        self.pointers: dict[str, str] = {}
        self.access_group = ""
        """What marks an access as independent of other iterations of the `simd` loop around it."""
        self.private: set[str] = set()
        """Scratch of one iteration: its accesses are in no group."""
        self.called: Collection[str] = ()
        """Functions of scalars that are called where all others are inlined."""

    # Expressions, in the order of the grammar

    def expression(self, node: Expr) -> str:
        match node:
            case Const():
                return literal(node)
            case Var():
                return self.variable(node)
            case Load():
                return self.load(node)
            case Unary():
                return self.unary(node)
            case Binary():
                return self.binary(node)
            case Compare():
                return self.compare(node.op, node.a.type, *self._operands(node.a, node.b))
            case Select():
                return self.select(node)
            case Fma():
                return self.fma(node)
            case DotBytes():
                return self.dot_bytes(node)
            case LookupBytes():
                return self.lookup_bytes(node)
            case DotBf16():
                return self.dot_bf16(node)
            case Cast():
                return self.cast(node)
            case Bitcast():
                return self.bitcast(node)
            case Splat():
                return self.splat(node)
            case Ramp():
                return self.ramp(node)
            case Lane():
                return self.lane(node)
            case Fold():
                return self.fold(node)
            case Shuffle():
                return self.shuffle(node)
            case Call():
                return self.call(node)
            case _:
                assert_never(node)

    def variable(self, node: Var) -> str:
        if node.name in self.slots:
            return self.writer.value(f"load {type_name(node.type)}, ptr {self.slots[node.name]}")
        return self.values[node.name]

    def load(self, node: Load) -> str:
        prim = node.buffer.prim
        pointer = self.element(node.buffer, node.index)
        moved = memory_name(prim, node.lanes)
        suffix = f", align {prim.size}{self.group_of(node.buffer)}"
        loaded = self.writer.value(f"load {moved}, ptr {pointer}{suffix}")
        if prim is not Prim.BOOL:
            return loaded
        return self.writer.value(f"icmp ne {moved} {loaded}, zeroinitializer")

    def unary(self, node: Unary) -> str:
        kind = type_name(node.type)
        x = self.expression(node.x)
        if node.type.prim.is_float:
            return self._float_unary(node.op, node.type, x)
        match node.op:
            case UnaryOp.NEG:
                return self.writer.value(f"sub {kind} zeroinitializer, {x}")
            case UnaryOp.NOT:
                ones = literal(Const(True if node.type.prim is Prim.BOOL else -1, node.type))
                return self.writer.value(f"xor {kind} {x}, {ones}")
            case UnaryOp.ABS if node.type.prim.is_signed:
                args = [(kind, x), ("i1", "false")]
                return self.writer.intrinsic("abs", intrinsic_suffix(node.type), kind, args)
            case _:
                return x  # integers and bools are their own magnitude and rounding

    def binary(self, node: Binary, *, flags: str = "") -> str:
        """Emit `a op b`; `flags` are fast-math flags such as `reassoc`."""
        a, b = self._operands(node.a, node.b)
        return self.combine(node.op, node.type, a, b, flags=flags)

    def combine(self, op: BinaryOp, type: ValueType, a: str, b: str, *, flags: str = "") -> str:
        """Apply a binary operator to operands."""
        kind = type_name(type)
        if op in _PICKS:
            chosen = self.compare(_PICKS[op], type, a, b)
            return self._pick(chosen, type, a, b)
        if type.prim.is_float:
            return self.writer.value(f"{_FLOAT_BINARY[op]} {flags}{kind} {a}, {b}")
        if type == _INDEX:
            folded = _folded(op, a, b)
            if folded is not None:
                return folded
        special = _SIGNED_BINARY if type.prim.is_signed else _UNSIGNED_BINARY
        return self.writer.value(f"{special.get(op) or _INT_BINARY[op]} {kind} {a}, {b}")

    def compare(self, op: CompareOp, type: ValueType, a: str, b: str) -> str:
        if type.prim.is_float:
            order = "u" if op is CompareOp.NE else "o"
            return self.writer.value(f"fcmp {order}{op.value} {type_name(type)} {a}, {b}")
        sign = "s" if type.prim.is_signed else "u"
        predicate = op.value if op in (CompareOp.EQ, CompareOp.NE) else sign + op.value
        return self.writer.value(f"icmp {predicate} {type_name(type)} {a}, {b}")

    def select(self, node: Select) -> str:
        condition = self.expression(node.condition)
        return self._pick(condition, node.type, *self._operands(node.a, node.b))

    def fma(self, node: Fma) -> str:
        kind = type_name(node.type)
        args = [(kind, self.expression(part)) for part in (node.a, node.b, node.c)]
        return self.writer.intrinsic("fma", intrinsic_suffix(node.type), kind, args)

    def dot_bytes(self, node: DotBytes) -> str:
        features = self.writer.module.features
        name = byte_dot_intrinsic(features, node.a.type, squares=node.squares)
        if not name:
            return self.expression(expanded(node))
        args = [self.expression(part) for part in (node.c, node.a, node.b)]
        return call_byte_dot(self.writer, name, node.a.type, args)

    def lookup_bytes(self, node: LookupBytes) -> str:
        name = byte_lookup_intrinsic(self.writer.module.features, node.type.lanes)
        if not name:
            return self.expression(expanded_lookup(node))
        return call_byte_lookup(self.writer, name, node, self.expression(node.x))

    def dot_bf16(self, node: DotBf16) -> str:
        lanes = node.type.lanes
        name = bf16_dot_intrinsic(self.writer.module.features, lanes)
        if not name:
            return self.expression(expanded_bf16(node))
        args = [self.expression(part) for part in (node.c, node.a, node.b)]
        return call_bf16_dot(self.writer, name, lanes, args)

    def cast(self, node: Cast) -> str:
        x = self.expression(node.x)
        source, target = node.x.type, node.type
        if target.prim is source.prim:
            return x
        if target.prim is Prim.BOOL:
            return self.compare(CompareOp.NE, source, x, "zeroinitializer")
        instruction = _conversion(source.prim, target.prim)
        if instruction is None:
            return x
        return self.writer.value(f"{instruction} {type_name(source)} {x} to {type_name(target)}")

    def bitcast(self, node: Bitcast) -> str:
        x = self.expression(node.x)
        source, target = type_name(node.x.type), type_name(node.type)
        return x if source == target else self.writer.value(f"bitcast {source} {x} to {target}")

    def splat(self, node: Splat) -> str:
        if isinstance(node.x, Const):
            return literal(Const(node.x.value, node.type))
        return self._spread(self.expression(node.x), node.type)

    def ramp(self, node: Ramp) -> str:
        scalar, kind = type_name(node.base.type), type_name(node.type)
        start = self._spread(self.expression(node.base), node.type)
        steps = ", ".join(f"{scalar} {lane}" for lane in range(node.lanes))
        return self.writer.value(f"add {kind} {start}, <{steps}>")

    def lane(self, node: Lane) -> str:
        x = self.expression(node.x)
        return self.writer.value(f"extractelement {type_name(node.x.type)} {x}, i64 {node.lane}")

    def fold(self, node: Fold) -> str:
        operand, type = self.expression(node.x), node.x.type
        while type.lanes > 2:
            half = type.lanes // 2
            low = self._shuffled(type, operand, operand, range(half))
            high = self._shuffled(type, operand, operand, range(half, type.lanes))
            type = ValueType(type.prim, half)
            operand = self.combine(node.op, type, low, high)
        kind = type_name(type)
        first = self.writer.value(f"extractelement {kind} {operand}, i64 0")
        second = self.writer.value(f"extractelement {kind} {operand}, i64 1")
        return self.combine(node.op, node.type, first, second)

    def shuffle(self, node: Shuffle) -> str:
        a, b = self._operands(node.a, node.b)
        return self._shuffled(node.a.type, a, b, node.positions)

    def call(self, node: Call) -> str:
        lanes = node.args[0].type.lanes
        steps = half_steps(self.writer.module.features, node.function)
        if steps:
            return convert_half(self.writer, steps, lanes, self.expression(node.args[0]))
        name = function_name(node.function, lanes)
        module = self.writer.module
        module.define(name, lambda: emit_function(module, lift_function(node.function, lanes)))
        args = ", ".join(f"{type_name(arg.type)} {self.expression(arg)}" for arg in node.args)
        inlined = "" if name not in self.called else " noinline"
        return self.writer.value(f"call {type_name(node.type)} @{name}({args}){inlined}")

    # Memory

    def element(self, buffer: Buffer, index: Expr) -> str:
        """Return a pointer to `buffer[index]`."""
        pointer = self.pointers[buffer.name]
        if isinstance(index, Const) and index.value == 0:
            return pointer
        at = self.expression(index)
        kind = memory_name(buffer.prim)
        return self.writer.value(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {at}")

    def group_of(self, buffer: Buffer) -> str:
        return "" if buffer.name in self.private else self.access_group

    # Parts

    def _operands(self, a: Expr, b: Expr) -> tuple[str, str]:
        return self.expression(a), self.expression(b)

    def _float_unary(self, op: UnaryOp, type: ValueType, x: str) -> str:
        kind = type_name(type)
        if op is UnaryOp.NEG:
            return self.writer.value(f"fneg {kind} {x}")
        return self.writer.intrinsic(_FLOAT_UNARY[op], intrinsic_suffix(type), kind, [(kind, x)])

    def _pick(self, condition: str, type: ValueType, a: str, b: str) -> str:
        flag, kind = type_name(ValueType(Prim.BOOL, type.lanes)), type_name(type)
        return self.writer.value(f"select {flag} {condition}, {kind} {a}, {kind} {b}")

    def _spread(self, scalar: str, type: ValueType) -> str:
        one, kind = prim_name(type.prim), type_name(type)
        first = self.writer.value(f"insertelement {kind} poison, {one} {scalar}, i64 0")
        zeros = f"<{type.lanes} x i32> zeroinitializer"
        return self.writer.value(f"shufflevector {kind} {first}, {kind} poison, {zeros}")

    def _shuffled(self, type: ValueType, a: str, b: str, positions: range | tuple[int, ...]) -> str:
        kind = type_name(type)
        mask = ", ".join(f"i32 {position}" for position in positions)
        lanes = f"<{len(positions)} x i32> <{mask}>"
        return self.writer.value(f"shufflevector {kind} {a}, {kind} {b}, {lanes}")


def _folded(op: BinaryOp, a: str, b: str) -> str | None:
    """Return the result of index arithmetic on small literals, such as `1 * 32 + 16`.

    Unrolled loops make many of them, and scratch that they index can live in registers only if
    its indices are literals.
    """
    if not (_is_small(a) and _is_small(b)):
        return None
    match op:
        case BinaryOp.ADD:
            return str(int(a) + int(b))
        case BinaryOp.SUB:
            return str(int(a) - int(b))
        case BinaryOp.MUL:
            return str(int(a) * int(b))
        case _:
            return None


def _is_small(operand: str) -> bool:
    """True for literals whose sums, differences and products fit any integer type."""
    return operand.removeprefix("-").isdigit() and abs(int(operand)) < _SMALL


def _conversion(source: Prim, target: Prim) -> str | None:
    """Return the instruction that converts numbers, or None where the bits stay the same."""
    if source.is_float:
        return _from_float(source, target)
    if target.is_float:
        return "sitofp" if source.is_signed else "uitofp"
    if source is Prim.BOOL or source.size < target.size:
        return "sext" if source.is_signed else "zext"
    return None if source.size == target.size else "trunc"


def _from_float(source: Prim, target: Prim) -> str:
    if target.is_float:
        return "fpext" if source.size < target.size else "fptrunc"
    return "fptosi" if target.is_signed else "fptoui"


def function_name(function: Function, lanes: int) -> str:
    """Return the name of a function's version for `lanes` values at once."""
    return function.name if lanes == 1 else f"{function.name}.x{lanes}"


def emit_function(module: ModuleWriter, function: Function) -> str:
    """Return the definition of a pure function; it is inlined wherever it is called."""
    emitter = ExpressionEmitter(FunctionWriter(module))
    for param in function.params:
        emitter.values[param.name] = f"%{param.name}"
    for let in function.lets:
        emitter.values[let.var.name] = emitter.expression(let.value)
    kind = type_name(function.result.type)
    emitter.writer.write(f"ret {kind} {emitter.expression(function.result)}")
    params = ", ".join(f"{type_name(param.type)} %{param.name}" for param in function.params)
    return emitter.writer.text(f"define internal {kind} @{function.name}({params}) #0")

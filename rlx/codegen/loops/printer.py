"""Kernels as readable pseudo-code.

kernel scale(x: f32[], out: mut f32[], n: i64)
  for i in 0 .. n, simd:
    out[i] = x[i] * 2.0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from rlx.codegen.loops.nodes import (
    Address,
    Assign,
    Atomic,
    Binary,
    BinaryOp,
    Bitcast,
    Block,
    Buffer,
    Call,
    Cast,
    Comment,
    Compare,
    CompareOp,
    Const,
    Declare,
    DotBf16,
    DotBytes,
    Expr,
    External,
    Fail,
    Fma,
    Fold,
    For,
    Function,
    If,
    Invoke,
    Kernel,
    Lane,
    Let,
    Load,
    Local,
    LookupBytes,
    LoopKind,
    Pause,
    Prefetch,
    Prim,
    Ramp,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    TileStep,
    Unary,
    UnaryOp,
    Var,
    While,
)
from rlx.codegen.loops.visit import addresses

Marks = Mapping[int, Sequence[str]]
"""Remarks to print under statements, by their number in the order of `visit.walk`."""

_INFIX: dict[BinaryOp | CompareOp, tuple[str, int]] = {
    BinaryOp.MUL: ("*", 9),
    BinaryOp.DIV: ("/", 9),
    BinaryOp.MOD: ("%", 9),
    BinaryOp.ADD: ("+", 8),
    BinaryOp.SUB: ("-", 8),
    BinaryOp.SHL: ("<<", 7),
    BinaryOp.SHR: (">>", 7),
    BinaryOp.LSHR: (">>>", 7),
    BinaryOp.AND: ("&", 6),
    BinaryOp.XOR: ("^", 5),
    BinaryOp.OR: ("|", 4),
    CompareOp.EQ: ("==", 3),
    CompareOp.NE: ("!=", 3),
    CompareOp.LT: ("<", 3),
    CompareOp.LE: ("<=", 3),
    CompareOp.GT: (">", 3),
    CompareOp.GE: (">=", 3),
}
_PREFIX = {UnaryOp.NEG: "-", UnaryOp.NOT: "~"}
_PREFIX_PRECEDENCE = 10
_ATOM = 11


def format_function(function: Function) -> str:
    params = ", ".join(f"{param.name}: {param.type}" for param in function.params)
    lines = [f"# {function.doc}"] if function.doc else []
    lines.append(f"function {function.name}({params}) -> {function.result.type}")
    lines += [f"  let {let.var.name} = {format_expression(let.value)}" for let in function.lets]
    lines.append(f"  return {format_expression(function.result)}")
    return "\n".join(lines) + "\n"


def format_kernel(kernel: Kernel, marks: Marks | None = None) -> str:
    """Print a kernel; `marks` puts remarks under statements."""
    buffers = [_buffer(buffer) for buffer in kernel.buffers]
    scalars = [f"{scalar.name}: {scalar.type}" for scalar in kernel.scalars]
    header = f"kernel {kernel.name}({', '.join([*buffers, *scalars])})"
    doc = [f"# {line}" for line in kernel.doc]
    body = _Writer(marks or {}).block(kernel.body, 1)
    return "\n".join([*doc, header, *body]) + "\n"


def _buffer(buffer: Buffer) -> str:
    mutable = "mut " if buffer.writable else ""
    aliased = " may alias" if buffer.may_alias else ""
    return f"{buffer.name}: {mutable}{buffer.prim}[]{aliased}"


class _Writer:
    """Numbers statements while it prints them, to find their marks."""

    def __init__(self, marks: Marks) -> None:
        self.marks = marks
        self.count = 0

    def block(self, block: Block, depth: int) -> Iterator[str]:
        for statement in block:
            number = self.count
            self.count += 1
            indent = "  " * depth
            lines = _head(statement)
            yield from (indent + line for line in lines)
            for remark in self.marks.get(number, ()):
                yield f"{indent}{'^' * len(lines[-1])} {remark}"
            yield from self.inner(statement, depth)

    def inner(self, statement: Stmt, depth: int) -> Iterator[str]:
        match statement:
            case For() | While():
                yield from self.block(statement.body, depth + 1)
            case If():
                yield from self.block(statement.then, depth + 1)
                if statement.orelse:
                    yield "  " * depth + "else:"
                    yield from self.block(statement.orelse, depth + 1)
            case _:
                return


def _head(statement: Stmt) -> list[str]:
    """The lines of a statement without its blocks."""
    match statement:
        case Let():
            return [f"let {_bound(statement.var)} = {format_expression(statement.value)}"]
        case Declare():
            return [f"var {_bound(statement.var)} = {format_expression(statement.value)}"]
        case Assign():
            return [f"{statement.var.name} = {format_expression(statement.value)}"]
        case Local():
            return [
                f"local {statement.buffer.name}: {statement.buffer.prim}[{statement.buffer.extent}]"
            ]
        case Store():
            place = _element(statement.buffer, statement.index, statement.value.type.lanes)
            how = " streaming" if statement.streaming else ""
            return [f"{place} = {format_expression(statement.value)}{how}"]
        case For():
            return [_loop(statement)]
        case While():
            return [f"while {format_expression(statement.condition)}:"]
        case If():
            return [f"if {format_expression(statement.condition)}:"]
        case Fail():
            text = f"fail {statement.status.name} at {format_expression(statement.position)}"
            details = ", ".join(map(format_expression, statement.details))
            return [f"{text} with {details}" if details else text]
        case External() | Invoke() | Atomic():
            return [_call(statement)]
        case Prefetch():
            return [f"prefetch {_element(statement.buffer, statement.index, 1)}"]
        case TileStep():
            tiles = " ".join(f"tile{number}" for number in statement.tiles)
            parts = [statement.op.value, tiles, *map(_argument, addresses(statement))]
            if statement.stride is not None:
                parts.append(f"by {format_expression(statement.stride)}")
            return ["tiles: " + " ".join(filter(None, parts))]
        case Pause():
            return ["pause"]
        case Comment():
            return [f"# {line}" for line in statement.text.split("\n")]
        case _:
            assert_never(statement)


def _bound(var: Var) -> str:
    return f"{var.name}: {var.type}"


def _loop(loop: For) -> str:
    text = (
        f"for {loop.var.name} in {format_expression(loop.start)} .. {format_expression(loop.stop)}"
    )
    text += f" step {loop.step}" if loop.step != 1 else ""
    text += f", {loop.kind.value}" if loop.kind is not LoopKind.SERIAL else ""
    folded = ", ".join(f"{op.value} {var.name}" for var, op in loop.accumulators)
    return f"{text}, accumulates {folded}:" if folded else f"{text}:"


def _call(statement: External | Invoke | Atomic) -> str:
    match statement:
        case External():
            args = ", ".join(_argument(arg) for arg in statement.args)
            called = statement.address
            at = "" if called is None else f" at {format_expression(called)}"
            return f"{_result(statement.result)}extern {statement.symbol}({args}){at}"
        case Invoke():
            args = ", ".join(_argument(arg) for arg in (*statement.buffers, *statement.scalars))
            text = f"invoke {statement.kernel.name}({args})"
            if statement.bounds is not None:
                text += " for " + " .. ".join(format_expression(each) for each in statement.bounds)
            return text + (f" origin {statement.origin}" if statement.origin >= 0 else "")
        case Atomic():
            place = _element(statement.buffer, statement.index, 1)
            value = "" if statement.value is None else f", {format_expression(statement.value)}"
            return f"{_result(statement.result)}atomic {statement.op.value} {place}{value}"


def _result(var: Var | None) -> str:
    return "" if var is None else f"let {_bound(var)} = "


def _argument(arg: Expr | Address) -> str:
    if not isinstance(arg, Address):
        return format_expression(arg)
    mutable = "mut " if arg.writable else ""
    return f"&{mutable}{arg.prim} {_element(arg.buffer, arg.index, 1)}"


def _element(buffer: Buffer, index: Expr, lanes: int) -> str:
    span = f"; {lanes}" if lanes > 1 else ""
    return f"{buffer.name}[{format_expression(index)}{span}]"


def format_expression(expr: Expr, context: int = 0) -> str:
    """Print an expression, parenthesized if it binds less than `context`."""
    text, precedence = _expression(expr)
    return f"({text})" if precedence < context else text


def _expression(expr: Expr) -> tuple[str, int]:
    match expr:
        case Const():
            return _constant(expr), _ATOM
        case Var():
            return expr.name, _ATOM
        case Load():
            return _element(expr.buffer, expr.index, expr.lanes), _ATOM
        case Unary():
            if expr.op not in _PREFIX:
                return f"{expr.op.value}({format_expression(expr.x)})", _ATOM
            inner = format_expression(expr.x, _PREFIX_PRECEDENCE + 1)
            return _PREFIX[expr.op] + inner, _PREFIX_PRECEDENCE
        case Binary() | Compare():
            return _infix(expr)
        case Select():
            return _function("select", expr.condition, expr.a, expr.b)
        case Fma():
            return _function("fma", expr.a, expr.b, expr.c)
        case DotBytes():
            name = "dot_squares_of_bytes" if expr.squares else "dot_bytes"
            return _function(name, expr.a, expr.b, expr.c)
        case LookupBytes():
            table = " ".join(map(str, expr.table))
            return f"lookup_bytes([{table}], {format_expression(expr.x)})", _ATOM
        case DotBf16():
            return _function("dot_bf16", expr.a, expr.b, expr.c)
        case Cast():
            return _function(str(expr.prim), expr.x)
        case Bitcast():
            return _function(f"bits_{expr.prim}", expr.x)
        case Splat():
            return _function(f"splat{expr.lanes}", expr.x)
        case Ramp():
            return _function(f"ramp{expr.lanes}", expr.base)
        case Lane():
            return f"{format_expression(expr.x, _ATOM)}.{expr.lane}", _ATOM
        case Fold():
            return _function(f"fold_{expr.op.value}", expr.x)
        case Shuffle():
            both = f"{format_expression(expr.a)}, {format_expression(expr.b)}"
            return f"shuffle({both}; {' '.join(map(str, expr.positions))})", _ATOM
        case Call():
            return _function(expr.function.name, *expr.args)
        case _:
            assert_never(expr)


def _constant(expr: Const) -> str:
    value = expr.value
    if expr.type.prim.is_float:
        value = float(value)
    elif expr.type.prim is Prim.BOOL:
        value = bool(value)
    return f"{value}" if expr.type.lanes == 1 else f"splat{expr.type.lanes}({value})"


def _infix(expr: Binary | Compare) -> tuple[str, int]:
    if expr.op not in _INFIX:
        return _function(expr.op.value, expr.a, expr.b)
    symbol, precedence = _INFIX[expr.op]
    left = format_expression(expr.a, precedence)
    return f"{left} {symbol} {format_expression(expr.b, precedence + 1)}", precedence


def _function(name: str, *args: Expr) -> tuple[str, int]:
    return f"{name}({', '.join(format_expression(arg) for arg in args)})", _ATOM

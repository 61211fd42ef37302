"""The verifier: every rule of the grammar in `nodes`, all faults at once.

    verify_kernel(kernel)

A fault is ours, not the user's: `InternalError` shows the printed kernel with a mark under each
faulty statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from rlx.codegen.loops.nodes import (
    DETAIL_WORDS,
    Address,
    Assign,
    Atomic,
    AtomicOp,
    Block,
    Buffer,
    Call,
    Comment,
    Declare,
    Expr,
    External,
    Fail,
    For,
    Function,
    If,
    Invoke,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Module,
    Pause,
    Prefetch,
    Prim,
    Stmt,
    Store,
    TileStep,
    ValueType,
    Var,
    While,
)
from rlx.codegen.loops.printer import format_function, format_kernel
from rlx.codegen.loops.tile_registers import tile_faults
from rlx.codegen.loops.verify_expressions import (
    CONDITION,
    FOLDS,
    INDEX,
    binary_takes,
    expression_faults,
    index_faults,
)
from rlx.codegen.loops.visit import addresses, expressions, functions_of, walk, walk_expression
from rlx.errors import InternalError


def verify_kernel(kernel: Kernel) -> None:
    """Raise InternalError unless the kernel keeps every rule; calls are checked by signature."""
    marks = kernel_faults(kernel)
    if not marks:
        return
    count = sum(map(len, marks.values()))
    faults = [fault for number in sorted(marks) for fault in marks[number]]
    raise InternalError(
        f"kernel {kernel.name} breaks {count} rules of the loop language; first: {faults[0]}\n"
        + _header_faults(marks)
        + format_kernel(kernel, marks)
    )


def _header_faults(marks: dict[int, list[str]]) -> str:
    return "".join(f"in its signature: {fault}\n" for fault in marks.get(_SIGNATURE, ()))


def verify_function(function: Function) -> None:
    """Raise InternalError unless a function is pure, scalar and well typed."""
    faults = function_faults(function)
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        raise InternalError(
            f"function {function.name} breaks {len(faults)} rules of the loop language:\n"
            f"{listed}\n{format_function(function)}"
        )


def verify_module(module: Module) -> None:
    """Verify all functions and kernels, that names are unique and callees come first."""
    known: set[str] = set()
    for function in module.functions:
        verify_function(function)
        for callee in _callees(function):
            _require(callee.name in known, f"function {function.name} precedes {callee.name}")
        _require(function.name not in known, f"two functions or kernels named {function.name}")
        known.add(function.name)
    for kernel in dict.fromkeys((*module.kernels, *module.entries)):
        verify_kernel(kernel)
        for name in _called(kernel):
            _require(name in known, f"kernel {kernel.name} calls {name}, which is not before it")
        _require(kernel.name not in known, f"two functions or kernels named {kernel.name}")
        known.add(kernel.name)


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise InternalError(f"module: {fault}")


def _callees(function: Function) -> Iterable[Function]:
    for root in (*(let.value for let in function.lets), function.result):
        for expr in walk_expression(root):
            if isinstance(expr, Call):
                yield expr.function


def _called(kernel: Kernel) -> list[str]:
    invoked = [each.kernel.name for each in walk(kernel.body) if isinstance(each, Invoke)]
    return [function.name for function in functions_of([kernel])] + invoked


def function_faults(function: Function) -> list[str]:
    """Return everything wrong with a function."""
    faults: list[str] = []
    scope = {param.name: param.type for param in function.params}
    if len(scope) != len(function.params):
        faults.append("two parameters have one name")
    for var, value in [*((let.var, let.value) for let in function.lets), (None, function.result)]:
        for expr in walk_expression(value):
            faults += expression_faults(expr)
            if isinstance(expr, Load):
                faults.append(f"loads {expr.buffer.name}; a function is pure")
            elif isinstance(expr, Var) and scope.get(expr.name) != expr.type:
                faults.append(f"{expr.name} is not bound as {expr.type}")
            if expr.type.lanes != 1:
                faults.append(f"has a vector of {expr.type}; a function is scalar")
        if var is not None:
            if var.name in scope:
                faults.append(f"{var.name} is bound twice")
            if var.type != value.type:
                faults.append(f"let {var.name}: {var.type} of a value of {value.type}")
            scope[var.name] = var.type
    return faults


_SIGNATURE = -1  # the number of "no statement": faults of names and arguments


def kernel_faults(kernel: Kernel) -> dict[int, list[str]]:
    """Return faults by statement number in the order of `visit.walk`; -1 is the signature."""
    return _Verifier(kernel).run()


class _Verifier:
    """One pass over a kernel with the names in scope."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.faults: dict[int, list[str]] = {}
        self.number = _SIGNATURE
        self.count = -1
        self.taken: set[str] = set()
        self.variables: dict[str, ValueType] = {}
        self.mutable: dict[str, int] = {}
        """Mutable variables, with the count of loops open where each was declared."""
        self.buffers: dict[str, Buffer] = {}
        self.open_loops: list[For] = []
        self.functions: set[str] = set()

    def run(self) -> dict[int, list[str]]:
        for buffer in self.kernel.buffers:
            self.claim(buffer.name)
            self.buffers[buffer.name] = buffer
            self.require(buffer.extent is None, f"argument {buffer.name} has an extent")
        for scalar in self.kernel.scalars:
            self.bind(scalar)
            self.require(scalar.type.lanes == 1, f"argument {scalar.name} is a vector")
        self.top_level()
        self.number = _SIGNATURE
        self.block(self.kernel.body)
        return self.faults

    def top_level(self) -> None:
        """A parallel loop is a top-level statement after nothing but lets."""
        for number, statement in enumerate(walk(self.kernel.body)):
            if not isinstance(statement, For) or statement.kind is not LoopKind.PARALLEL:
                continue
            self.number = number
            places = [i for i, each in enumerate(self.kernel.body) if each is statement]
            self.require(len(places) == 1, "a parallel loop must be at the top level, once")
            before = self.kernel.body[: places[0]] if places else ()
            plain = all(isinstance(each, (Let, Comment)) for each in before)
            self.require(plain, "only lets may precede a parallel loop")
            first = self.kernel.parallel_loop is statement
            self.require(first, "a kernel may hold one parallel loop")

    # Scopes

    def require(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.setdefault(self.number, []).append(fault)

    def claim(self, name: str) -> None:
        self.require(name not in self.taken, f"{name} is bound twice")
        self.taken.add(name)

    def bind(self, var: Var) -> None:
        self.claim(var.name)
        self.variables[var.name] = var.type

    def block(self, block: Block) -> None:
        """Check a block; what it binds ends with it."""
        variables, mutable, buffers = self.variables, self.mutable, self.buffers
        self.variables, self.mutable, self.buffers = dict(variables), dict(mutable), dict(buffers)
        for statement in block:
            self.count += 1
            self.number = self.count
            for expr in expressions(statement):
                self.expression(expr)
            self.statement(statement)
        self.variables, self.mutable, self.buffers = variables, mutable, buffers

    # Expressions

    def expression(self, root: Expr) -> None:
        for expr in walk_expression(root):
            for fault in expression_faults(expr):
                self.require(False, fault)
            match expr:
                case Var():
                    bound = self.variables.get(expr.name)
                    self.require(bound is not None, f"{expr.name} is not in scope")
                    same = bound is None or bound == expr.type
                    self.require(same, f"{expr.name} is {bound}, used as {expr.type}")
                case Load():
                    self.known(expr.buffer)
                case Call():
                    self.function(expr.function)
                case _:
                    pass

    def function(self, function: Function) -> None:
        if function.name in self.functions:
            return
        self.functions.add(function.name)
        for fault in function_faults(function):
            self.require(False, f"function {function.name}: {fault}")

    def known(self, buffer: Buffer) -> None:
        self.require(self.buffers.get(buffer.name) == buffer, f"{buffer.name} is not in scope")

    def writable(self, buffer: Buffer) -> None:
        self.known(buffer)
        self.require(buffer.writable, f"{buffer.name} is not writable")

    def typed(self, what: str, expr: Expr, expected: ValueType) -> None:
        self.require(expr.type == expected, f"{what} is {expr.type}; it must be {expected}")

    # Statements

    def statement(self, statement: Stmt) -> None:
        match statement:
            case Let():
                self.typed(statement.var.name, statement.value, statement.var.type)
                self.bind(statement.var)
            case Declare():
                self.typed(statement.var.name, statement.value, statement.var.type)
                self.bind(statement.var)
                self.mutable[statement.var.name] = len(self.open_loops)
            case Assign():
                self.assign(statement)
            case Local():
                self.local(statement.buffer)
            case Store():
                self.store(statement)
            case For():
                self.loop(statement)
            case While():
                self.typed("the condition", statement.condition, CONDITION)
                self.block(statement.body)
            case If():
                self.typed("the condition", statement.condition, CONDITION)
                self.block(statement.then)
                self.block(statement.orelse)
            case Fail():
                self.typed("the position", statement.position, INDEX)
                for detail in statement.details:
                    self.typed("a detail", detail, INDEX)
                count = len(statement.details)
                self.require(
                    count in (0, len(DETAIL_WORDS)), f"a fail has {count} details; 0 or 2 are kept"
                )
            case External():
                self.addresses(arg for arg in statement.args if isinstance(arg, Address))
                if statement.address is not None:
                    self.typed("the address", statement.address, INDEX)
                if statement.result is not None:
                    self.bind(statement.result)
            case Invoke():
                self.invoke(statement)
            case Atomic():
                self.atomic(statement)
            case Prefetch():
                for fault in index_faults(statement.index, f"prefetch of {statement.buffer.name}"):
                    self.require(False, fault)
            case TileStep():
                self.addresses(addresses(statement))
                for fault in tile_faults(statement):
                    self.require(False, fault)
            case Pause() | Comment():
                pass
            case _:
                assert_never(statement)

    def assign(self, statement: Assign) -> None:
        name = statement.var.name
        self.require(name in self.mutable, f"{name} is not a mutable variable in scope")
        self.typed(name, statement.value, self.variables.get(name, statement.var.type))
        outside = self.open_loops[self.mutable.get(name, 0) :]
        for loop in outside:
            if loop.kind is LoopKind.SIMD:
                folded = any(var.name == name for var, _ in loop.accumulators)
                self.require(folded, f"{name} is assigned in a simd loop that does not declare it")

    def local(self, buffer: Buffer) -> None:
        self.claim(buffer.name)
        self.buffers[buffer.name] = buffer
        sized = buffer.extent is not None and buffer.extent > 0
        self.require(sized and buffer.writable, f"local {buffer.name} needs an extent, writable")

    def store(self, statement: Store) -> None:
        buffer = statement.buffer
        self.writable(buffer)
        for fault in index_faults(statement.index, f"store to {buffer.name}"):
            self.require(False, fault)
        lanes = statement.value.type.lanes
        self.typed(
            f"the value stored to {buffer.name}", statement.value, ValueType(buffer.prim, lanes)
        )

    def loop(self, loop: For) -> None:
        self.typed("the start", loop.start, INDEX)
        self.typed("the stop", loop.stop, INDEX)
        self.require(loop.var.type == INDEX, f"{loop.var.name} is {loop.var.type}; it must be i64")
        self.require(loop.step >= 1, f"the step is {loop.step}; it must be positive")
        simd = loop.kind is LoopKind.SIMD
        self.require(not simd or loop.step == 1, "a simd loop must have step 1")
        self.require(simd or not loop.accumulators, "only a simd loop declares accumulators")
        for var, op in loop.accumulators:
            self.require(var.name in self.mutable, f"accumulator {var.name} is not mutable here")
            fits = op in FOLDS and binary_takes(op, var.type.prim)
            self.require(fits, f"accumulator {var.name} of {var.type} by {op.value}")
        outer = self.variables
        self.variables = dict(outer)
        self.bind(loop.var)
        self.open_loops.append(loop)
        self.block(loop.body)
        self.open_loops.pop()
        self.variables = outer

    def addresses(self, addresses: Iterable[Address]) -> None:
        for address in addresses:
            self.known(address.buffer)
            for fault in index_faults(address.index, f"address in {address.buffer.name}"):
                self.require(False, fault)
            allowed = address.buffer.writable or not address.writable
            self.require(allowed, f"{address.buffer.name} is not writable")

    def invoke(self, statement: Invoke) -> None:
        callee = statement.kernel
        self.addresses(statement.buffers)
        expected = [buffer.prim for buffer in callee.buffers]
        given = [address.prim for address in statement.buffers]
        self.require(
            given == expected, f"{callee.name} takes {_listed(expected)}, given {_listed(given)}"
        )
        for buffer, address in zip(callee.buffers, statement.buffers, strict=False):
            allowed = address.writable or not buffer.writable
            self.require(allowed, f"{callee.name} writes {buffer.name}; its address is read-only")
        wanted = [scalar.type for scalar in callee.scalars]
        found = [scalar.type for scalar in statement.scalars]
        self.require(
            found == wanted, f"{callee.name} takes {_listed(wanted)}, given {_listed(found)}"
        )
        if statement.bounds is not None:
            self.require(callee.parallel_loop is not None, f"{callee.name} has no parallel loop")
            for bound in statement.bounds:
                self.typed("the bound", bound, INDEX)

    def atomic(self, statement: Atomic) -> None:
        reads = statement.op is AtomicOp.LOAD
        (self.known if reads else self.writable)(statement.buffer)
        for fault in index_faults(statement.index, f"atomic access to {statement.buffer.name}"):
            self.require(False, fault)
        self.require(statement.buffer.prim is Prim.I64, "an atomic access takes i64 memory")
        self.require(
            (statement.value is None) == reads, "an atomic load takes no value, others one"
        )
        if statement.value is not None:
            self.typed("the value", statement.value, INDEX)
        stores = statement.op is AtomicOp.STORE
        self.require((statement.result is None) or not stores, "an atomic store has no result")
        if statement.result is not None:
            self.require(statement.result.type == INDEX, "the result must be i64")
            self.bind(statement.result)


def _listed(types: Iterable[object]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"

"""Variable naming in C: short names, reused in sibling scopes.

The names of a kernel are unique all over it (`i`, `i_2`, `i_3`). C needs them to differ only where
both are visible, so that sibling loops may all count with `i`. No name hides another one.
"""

from __future__ import annotations

import re

from rlx.codegen.c.names import LIBM, function_name, variable_name
from rlx.codegen.loops.nodes import (
    Atomic,
    Block,
    Call,
    Const,
    Declare,
    External,
    For,
    Invoke,
    Kernel,
    Let,
    Local,
    LoopKind,
    Stmt,
    Var,
)
from rlx.codegen.loops.visit import all_expressions, blocks, can_fail, walk
from rlx.codegen.text import identifier

BEGIN, END, FAULT, STATUS = "<begin>", "<end>", "<fault>", "<status>"
"""What C adds to a kernel; no variable of a kernel has such a name."""

_COUNTED = re.compile(r"(_\d+)+$")
_HELPER_END = re.compile(r"_(bool|[iuf]\d+)(x\d+)?$|^[iuf]\d+x\d+(_u)?$")
"""Helpers (`load_f32x16`) and vector types."""
_HELPER_START = re.compile(r"^((AT|WEIGHTS_AT|CONSTANTS_AT|STATUS)_|shuffle_|own_)")
"""Places in the arena, statuses, and helpers that end in numbers."""


def stop_of(loop: For) -> str:
    """Return the name that `display_names` gives a loop's bound, where that needs a variable."""
    return f"<{loop.var.name} stop>"


def has_plain_bound(loop: For) -> bool:
    """True if C may evaluate the bound of `loop` at every trip."""
    return loop.kind is LoopKind.PARALLEL or isinstance(loop.stop, (Const, Var))


def display_names(kernel: Kernel, *, is_entry: bool = False) -> dict[str, str]:
    """Return the C name of each name that a kernel binds."""
    scopes = _Scopes()
    visible = _called(kernel)
    for name in [b.name for b in kernel.buffers] + [s.name for s in kernel.scalars]:
        scopes.bind(name, name, visible)
    if kernel.parallel_loop is not None:
        scopes.bind(BEGIN, "begin", visible)
        scopes.bind(END, "end", visible)
    if is_entry or can_fail(kernel):
        scopes.bind(FAULT, "fault", visible)
        scopes.bind(STATUS, "status", visible)
    scopes.block(kernel.body, visible)
    return scopes.names


class _Scopes:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def bind(self, name: str, wanted: str, visible: set[str]) -> None:
        plain = variable_name(wanted)
        if _HELPER_START.match(plain):
            plain = f"of_{plain}"
        shown, count = plain, 1
        while shown in visible or _HELPER_END.search(shown):
            count += 1
            shown = f"{plain}_{count}"
        self.names[name] = identifier(shown)
        visible.add(shown)

    def block(self, block: Block, visible: set[str]) -> None:
        visible = set(visible)
        for statement in block:
            self._statement(statement, visible)

    def _statement(self, statement: Stmt, visible: set[str]) -> None:
        match statement:
            case Let(var, _) | Declare(var, _):
                self._bind_short(var.name, visible)
            case Local(buffer):
                self._bind_short(buffer.name, visible)
            case External(result=Var(name, _)) | Atomic(result=Var(name, _)):
                self._bind_short(name, visible)
            case For():
                self._loop(statement, visible)
            case _:
                for inner in blocks(statement):
                    self.block(inner, visible)

    def _loop(self, loop: For, visible: set[str]) -> None:
        if not has_plain_bound(loop):
            self.bind(stop_of(loop), f"{_short(loop.var.name)}_stop", visible)
        inside = set(visible)
        self._bind_short(loop.var.name, inside)
        self.block(loop.body, inside)

    def _bind_short(self, name: str, visible: set[str]) -> None:
        self.bind(name, _short(name), visible)


def _short(name: str) -> str:
    """Return a name without the number that made it unique: `tile_2` is `tile`."""
    return _COUNTED.sub("", name) or name


def _called(kernel: Kernel) -> set[str]:
    """Return the names of the functions that the body of a kernel calls."""
    names = set(LIBM)
    for statement in walk(kernel.body):
        match statement:
            case Invoke():
                names.add(function_name(statement.kernel.name))
            case External():
                names.add(statement.symbol)
    called = (e.function.name for e in all_expressions(kernel.body) if isinstance(e, Call))
    return names | {function_name(name) for name in called}

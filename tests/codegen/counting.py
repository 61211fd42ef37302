"""How many stores a program executes: cost that is counted, where time would be noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import rlx
from rlx.codegen.loops.nodes import Block, Const, Expr, For, If, Invoke, Stmt, Store, While
from rlx.runtime.lower import lower_for
from rlx.target import detect_target


def stores(function: Callable[..., Any], *arguments: Any, trips: int = 0) -> int:
    """Return the stores that one call executes on one thread.

    Both sides of a branch are counted, and `trips` trips of a conditional loop.
    """
    target = dataclasses.replace(detect_target(), cores=1)
    program = lower_for(rlx.jit(function).graph(*arguments), target)
    return _of_block(program.module.entries[-1].body, trips)


def _of_block(block: Block, trips: int) -> int:
    return sum(_of(statement, trips) for statement in block)


def _of(statement: Stmt, trips: int) -> int:
    match statement:
        case Store():
            return 1
        case For():
            steps = -(-(_number(statement.stop) - _number(statement.start)) // statement.step)
            return max(steps, 0) * _of_block(statement.body, trips)
        case While():
            return trips * _of_block(statement.body, trips)
        case If():
            return _of_block(statement.then, trips) + _of_block(statement.orelse, trips)
        case Invoke():
            return _of_block(statement.kernel.body, trips)
        case _:
            return 0


def _number(expression: Expr) -> int:
    assert isinstance(expression, Const), f"the trips of a loop are not known: {expression}"
    return int(expression.value)

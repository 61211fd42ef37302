"""Entry points: the kernels through which the outside calls a module, and their ABI.

Every entry is a `Kernel` listed in `Module.entries`; its native form is an exported function

    int <name>(unsigned char *arena, <other buffers>, <scalars>)

that returns a `Status`, 0 if all is well. The arena is 64-byte aligned and starts with a header:

    i64[0]  status of the first fault, 0 if none      i64[2]  its position (element or slice)
    i64[1]  its origin: the number of the graph node  i64[3]  1 once `setup` has run

How emitters print failing kernels (the whole convention; both emitters follow it):

- A kernel fails if it contains a `Fail`, or an `Invoke` of a kernel that fails. Its native
  function then returns int. Unless it is an entry, it takes one more, last argument
  `int64_t *fault`, the header; an entry uses its first buffer, the arena.
- `Fail(status, position)` stores `fault[2] = position` and returns `status`.
- `Invoke` of a failing kernel passes `fault` on; if the status is not 0 it stores
  `fault[0] = status; fault[1] = origin` (only where `origin >= 0`) and returns the status.
- A kernel with a parallel loop takes `int64_t begin, int64_t end` after its scalars (and before
  `fault`). `Invoke(bounds=None)` passes the loop's own bounds: see `full_range`.
- Entries always return int; a kernel that cannot fail and is no entry returns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.codegen.loops.nodes import (
    Binary,
    Block,
    Cast,
    Const,
    Expr,
    Fail,
    For,
    If,
    Invoke,
    Kernel,
    Let,
    Unary,
    Var,
    While,
)
from rlx.errors import InternalError


def can_fail(kernel: Kernel) -> bool:
    """True if the kernel's native function returns a status (entries always do)."""
    return _block_fails(kernel.body)


def full_range(invoke: Invoke) -> tuple[Expr, Expr]:
    """Return the bounds of the callee's parallel loop, in the caller's terms."""
    loop = invoke.kernel.parallel_loop
    if loop is None:
        raise InternalError(f"kernel {invoke.kernel.name} has no parallel loop")
    known: dict[str, Expr] = {
        scalar.name: value
        for scalar, value in zip(invoke.kernel.scalars, invoke.scalars, strict=True)
    }
    for statement in invoke.kernel.body:
        if isinstance(statement, Let) and _is_bound_arithmetic(statement.value):
            known[statement.var.name] = _substitute(statement.value, known)
    return _substitute(loop.start, known), _substitute(loop.stop, known)


def _block_fails(block: Block) -> bool:
    for statement in block:
        match statement:
            case Fail():
                return True
            case Invoke(kernel=kernel) if can_fail(kernel):
                return True
            case For(body=body) | While(_, body) if _block_fails(body):
                return True
            case If(_, then, orelse) if _block_fails(then) or _block_fails(orelse):
                return True
            case _:
                pass
    return False


def _is_bound_arithmetic(expr: Expr) -> bool:
    match expr:
        case Const() | Var():
            return True
        case Unary(_, x) | Cast(x, _):
            return _is_bound_arithmetic(x)
        case Binary(_, a, b):
            return _is_bound_arithmetic(a) and _is_bound_arithmetic(b)
        case _:
            return False


def _substitute(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    match expr:
        case Const():
            return expr
        case Var(name, _) if name in known:
            return known[name]
        case Unary(op, x):
            return Unary(op, _substitute(x, known))
        case Cast(x, prim):
            return Cast(_substitute(x, known), prim)
        case Binary(op, a, b):
            return Binary(op, _substitute(a, known), _substitute(b, known))
        case _:
            raise InternalError(
                f"a parallel loop's bound holds {type(expr).__name__}; only arithmetic on "
                "extents can be repeated by the caller"
            )

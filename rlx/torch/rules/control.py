"""Loops and branches of PyTorch's programs: they stay loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.torch.registry import name_of, rule


@rule("higher_order.cond")
def cond(predicate: Any, on_true: Any, on_false: Any, operands: Sequence[Any] = ()) -> Any:
    if isinstance(predicate, bool):
        return list((on_true if predicate else on_false)(*operands))
    predicate = rnp.reshape(predicate, ()).astype("bool")
    return rlx.cond(
        predicate, lambda *x: list(on_true(*x)), lambda *x: list(on_false(*x)), *operands
    )


@rule("higher_order.while_loop")
def while_loop(test: Any, body: Any, carried: Any, rest: Any = ()) -> Any:
    def goes_on(state: Any) -> Any:
        found = test(*state, *rest)
        found = found[0] if isinstance(found, (list, tuple)) else found
        return rnp.reshape(found, ()).astype("bool")

    start = [rnp.asarray(x) for x in carried]
    return rlx.while_loop(goes_on, lambda state: list(body(*state, *rest)), start)


@rule("higher_order.scan")
def scan(step: Any, init: Any, xs: Any, rest: Any = ()) -> Any:
    count = len(init)

    def one(carry: Any, x: Any) -> Any:
        found = list(step(*carry, *x, *rest))
        return found[:count], found[count:]

    carry, outputs = rlx.scan(one, list(init), list(xs))
    return [*carry, *outputs]


@rule("higher_order.map_impl")
def map_(body: Any, xs: Any, rest: Any = ()) -> Any:
    return rlx.map(lambda x: list(body(*x, *rest)), list(xs))


@rule("higher_order.wrap_with_set_grad_enabled")
def with_gradients(enabled: bool, body: Any, *operands: Any) -> Any:
    found = body(*operands)
    return found if enabled else [rlx.stop_gradient(x) for x in found]


@rule("higher_order.invoke_subgraph")
def invoke_subgraph(body: Any, name: Any, *operands: Any) -> Any:
    del name
    return body(*operands)


@rule("higher_order.with_effects")
def with_effects(token: Any, operator: Any, *operands: Any, **named: Any) -> Any:
    """A check of LAPACK's codes has nothing to do: a singular matrix is a fault of its own."""
    if name_of(operator) != "_linalg_check_errors":
        raise UnsupportedError(
            f"{name_of(operator)} has effects beyond its results",
            remedy="leave it outside of the compiled function",
        )
    return [rnp.zeros((0,), "f32"), None]


@rule("higher_order.wrap_with_autocast")
def with_autocast(
    device: str, dtype: Any, enabled: bool, cache: Any, body: Any, *operands: Any
) -> Any:
    """Casts are in the body."""
    del device, dtype, enabled, cache
    return body(*operands)

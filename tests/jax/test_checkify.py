"""The messages of checkified functions are JAX's, word for word."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

F32 = np.float32


class Modules:
    """JAX, or rlx in its place."""

    def __init__(self, name: str) -> None:
        self.jax: Any = importlib.import_module(name)
        self.jnp: Any = importlib.import_module(f"{name}.numpy")
        self.lax: Any = importlib.import_module(f"{name}.lax")
        self.checkify: Any = importlib.import_module(f"{name}.experimental.checkify")


Function = Callable[..., Any]


def straight(at: Modules) -> Function:
    def f(x: Any) -> Any:
        at.checkify.check(x < 5, "{} is large", x)
        at.checkify.check(x > 0, "{x:.2f} is small, {y}", x=x, y=at.jnp.arange(2))
        return at.jnp.sqrt(x)

    return f


def scanned(at: Modules) -> Function:
    def f(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            at.checkify.check(c < 5, "{} at {}", c, y)
            return c + y, c

        return at.lax.scan(step, x, at.jnp.arange(5, dtype=at.jnp.float32))[0]

    return f


def counted(at: Modules) -> Function:
    def f(x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            at.checkify.check(c * i < 8, "{} times {}", c, i)
            return c + 1

        return at.lax.fori_loop(0, 5, step, x)

    return f


def waiting(at: Modules) -> Function:
    def f(x: Any) -> Any:
        def goes_on(c: Any) -> Any:
            at.checkify.check(c != 3, "condition {}", c)
            return c < 7

        def step(c: Any) -> Any:
            at.checkify.check(c != 5, "body {}", c)
            return c + 1

        return at.lax.while_loop(goes_on, step, x)

    return f


def branched(at: Modules) -> Function:
    def f(x: Any) -> Any:
        def large(x: Any) -> Any:
            at.checkify.check(x < 2, "large {}", x)
            return x

        def small(x: Any) -> Any:
            at.checkify.check(x > -2, "small {} {}", x, x + 1)
            return -x

        return at.lax.cond(x > 0, large, small, x)

    return f


def computed(at: Modules) -> Function:
    return lambda x: at.jnp.log(x) / at.jnp.sin(x)


def indexed(at: Modules) -> Function:
    def f(x: Any) -> Any:
        i = x.astype(at.jnp.int32)
        return at.jnp.ones((2, 3), at.jnp.float32)[:, i].sum()

    return f


PROGRAMS = (straight, scanned, counted, waiting, branched, computed, indexed)
NUMBERS = [F32(x) for x in (-4, -1, 0, 1, 2.5, 3, 4, 6)]


def messages(at: Modules, program: Function, batched: str) -> list[str | None]:
    """Return the error message for each number, checked one by one or as a batch."""
    kinds, f, batch = at.checkify.all_checks, program(at), at.jnp.array(NUMBERS)
    if batched == "batch of checked":
        return [at.jax.vmap(at.checkify.checkify(f, errors=kinds))(batch)[0].get()]
    if batched == "checked batch":
        return [at.checkify.checkify(at.jax.vmap(f), errors=kinds)(batch)[0].get()]
    checked = at.jax.jit(at.checkify.checkify(f, errors=kinds))
    return [checked(x)[0].get() for x in NUMBERS]


@pytest.mark.parametrize("batched", ["one by one", "batch of checked", "checked batch"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_messages_are_those_of_jax(program: Function, batched: str) -> None:
    pytest.importorskip("jax")
    if batched != "one by one" and program in (waiting, branched):
        pytest.skip("JAX refuses a batched condition, and checks branches that no example takes")
    ours, theirs = (messages(Modules(name), program, batched) for name in ("rlx.jax", "jax"))
    assert ours == theirs

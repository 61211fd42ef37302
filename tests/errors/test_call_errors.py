"""One wrong call per message of `rlx.compile` and of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import GraphError, InputError, RlxError, ShapeError, UnsupportedError
from rlx.ir import ops
from rlx.ir.graph import Graph

Call = Callable[[Graph], Any]


def example() -> Graph:
    graph = Graph("g")
    graph.set_outputs([graph.input("x", (3,)) + graph.param("w", (3,))])
    return graph


def compiled(graph: Graph) -> Any:
    return rlx.compile(graph, backend="llvm")


def larger_than_memory(shape: tuple[int, ...]) -> Any:
    graph = Graph("huge")
    graph.set_outputs([ops.exp(graph.input("x", shape))])
    return compiled(graph)


WRONG_CALLS: list[tuple[type[RlxError], str, Call]] = [
    (GraphError, "rlx.compile takes a Graph, not function",
     lambda _: rlx.compile(lambda x: x)),  # type: ignore[call-overload]  # the fault
    (UnsupportedError, "unknown backend 'cuda'", lambda g: rlx.compile(g, backend="cuda")),
    (UnsupportedError, "cannot run on 0 threads", lambda g: rlx.compile(g, threads=0)),
    (UnsupportedError, "cannot run on two threads",
     lambda g: rlx.compile(g, threads="two")),  # type: ignore[call-overload]  # the fault
    (UnsupportedError, "cannot run on 1.5 threads",
     lambda g: rlx.compile(g, threads=1.5)),  # type: ignore[call-overload]  # the fault
    (InputError, "params= is a list; it must be a mapping from names to arrays",
     lambda g: rlx.compile(g, backend="llvm", params=[1])),  # type: ignore[call-overload]  # the fault
    (InputError, "params= is a list; it must be a mapping from names to arrays",
     lambda g: rlx.compile(g, backend="reference", params=[1])),  # type: ignore[call-overload]  # the fault
    (InputError, "g has no param 'v'", lambda g: rlx.compile(g, params={"v": 1}, backend="llvm")),
    (InputError, "g: inputs are a NoneType; they must be", lambda g: compiled(g).run(None)),
    (InputError, "g: inputs are a list; they must be a mapping", lambda g: compiled(g).run([1])),
    (InputError, "g: inputs missing 'x'", lambda g: compiled(g)()),
    (InputError, "g: params not set: 'w'", lambda g: compiled(g)(np.zeros(3, np.float32))),
    (InputError, "param 'w' has dtype >f4; it must be f32",
     lambda g: rlx.compile(g, params={"w": np.zeros(3, ">f4")}, backend="llvm")),
    (UnsupportedError, "input: %0 of type f32[1099511627776, 1099511627776] takes",
     lambda _: larger_than_memory((1 << 40, 1 << 40))),
    (UnsupportedError, "the arena takes 2814", lambda _: larger_than_memory((1 << 45,))),
    (ShapeError, "input: shape is 3; it must be a tuple of extents",
     lambda g: g.input("y", 3)),  # type: ignore[arg-type]  # the fault
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "call"), WRONG_CALLS)
def test_a_wrong_call_says_what_is_wrong(kind: type[RlxError], message: str, call: Call) -> None:
    with pytest.raises(kind) as caught:
        call(example())
    assert caught.value.message.startswith(message)


def test_integers_of_numpy_are_extents() -> None:
    graph = Graph("g")
    extents: list[Any] = [np.int64(3), np.uint8(2)]
    value = graph.input("x", extents)
    assert value.shape == (3, 2)
    assert all(type(extent) is int for extent in value.shape)


N = rlx.Dim("n", max=8)
UNFIT: list[tuple[str, int, Callable[[Any], Any]]] = [
    ("argmax: axis 0 of shape (0,) is empty", 0, lambda x: ops.argmax(x, axis=0)),
    ("topk: k is 3; it must be in [0, 2]", 2, lambda x: ops.topk(x, k=3)[0]),
    ("narrow: start 2 and length 4 reach outside axis 0 of extent 5", 5,
     lambda x: ops.narrow(x, axis=0, start=2, length=4)),
    ("narrow: start 0 and length -1 reach outside", 0,
     lambda x: ops.narrow(x, axis=0, start=0, length=N - 1)),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize(("message", "n", "build"), UNFIT, ids=[entry[0] for entry in UNFIT])
def test_an_extent_that_an_op_refuses_is_an_error_at_the_users_line(
    message: str, n: int, build: Callable[[Any], Any], backend: str
) -> None:
    graph = Graph("g")
    graph.set_outputs([build(graph.input("x", (N,)))])
    run = rlx.compile(graph, backend=backend)
    run(np.zeros(8, np.float32))
    with pytest.raises(ShapeError) as caught:
        run(np.zeros(n, np.float32))
    assert caught.value.message.startswith(message)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__

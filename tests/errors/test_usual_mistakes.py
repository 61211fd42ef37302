"""What users usually get wrong: each error has its class, both values, a line and a remedy."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.errors
import rlx.numpy as rnp
from rlx.errors import (
    DTypeError,
    FormatError,
    GraphError,
    IndexOutOfRangeError,
    InputError,
    RlxError,
    ShapeError,
    UnsupportedError,
)
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.serialize import load
from rlx.runtime.aot import write_weights
from rlx.tracing.errors import (
    ConcretizationError,
    LeakedTracerError,
    MutationError,
    StaticArgumentError,
    TraceError,
)

Use = Callable[[], Any]
Mistake = tuple[type[RlxError], str, Use]
"""The class, a pattern that the message holds, and what raises it."""

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.arange(4, dtype=np.float32)
I = np.arange(3)  # noqa: E741


def of(function: Callable[..., Any], *args: Any) -> Use:
    """Return a use of `function` in a trace."""
    return lambda: rlx.jit(function)(*args)


SHAPES: list[Mistake] = [
    (ShapeError, r"getitem: a slice has step 0; steps must not be 0", of(lambda x: x[::0], X)),
    (InputError, r"concatenate: is given no array", of(lambda: rnp.concatenate([]))),
    (ShapeError, r"depths \[0, 1\]", of(lambda x: rnp.block([[x, x], x]), X)),
    (ShapeError, r"an empty list", of(lambda x: rnp.block([[x], []]), X)),
    (ShapeError, r"add: .*\(2, 3\).*\(4,\)", of(lambda x, y: x + y, X, Y)),
    (ShapeError, r"matmul: .*\(2, 3\).*\(4,\).* 3, must equal 4", of(lambda x, y: x @ y, X, Y)),
    (ShapeError, r"reshape: .*6 elements.*8", of(lambda x: x.reshape(4, 2), X)),
    (ShapeError, r"reshape: .*more than one -1", of(lambda x: x.reshape(-1, -1), X)),
    (ShapeError, r"sum: axis 2 .*rank 2", of(lambda x: x.sum(2), X)),
    (ShapeError, r"mean: .*names an axis twice", of(lambda x: rnp.mean(x, (0, 0)), X)),
    (ShapeError, r"transpose: perm \(0,\).*2 axes", of(lambda x: rnp.transpose(x, (0,)), X)),
    (ShapeError, r"squeeze: axis 0 has extent 2", of(lambda x: rnp.squeeze(x, 0), X)),
    (ShapeError, r"concat.*operand 1.*axis 0", of(lambda x, y: rnp.concatenate([x, y]), X, X.T)),
    (ShapeError, r"stack: .*\(2, 3\), \(4,\)", of(lambda x, y: rnp.stack([x, y]), X, Y)),
    (ShapeError, r"split: extent 3 of axis 1 .*by 2", of(lambda x: rnp.split(x, 2, 1), X)),
    (ShapeError, r"expand: shape \(2, 3\) .*\(3, 2\)",
     of(lambda x: rnp.broadcast_to(x, (3, 2)), X)),
    (ShapeError, r"einsum.*'j' has extents 3 and 2",
     of(lambda x: rnp.einsum("ij,jk->ik", x, x), X)),
    (ShapeError, r"einsum.*names 2 operands, 1 given", of(lambda x: rnp.einsum("ij,jk", x), X)),
    (ShapeError, r"diag.*rank 1 or 2.*rank 3", of(lambda x: rnp.diag(x[None]), X)),
    (ShapeError, r"cross: extents 4 and 4 of the crossed", of(lambda x: rnp.cross(x, x), Y)),
    (ShapeError, r"solve.*\(2, 3\)", of(lambda x: rnp.linalg.solve(x, x), X)),
    (ShapeError, r"moveaxis: \(0, 1\) and 0", of(lambda x: rnp.moveaxis(x, (0, 1), 0), X)),
    (ShapeError, r"zeros.*\(2, -1\) has a negative extent", of(lambda: rnp.zeros((2, -1)))),
    (ShapeError, r"max: an empty axis of shape \(0, 3\)", of(lambda x: rnp.max(x, 0), X[:0])),
]  # fmt: skip

INDICES: list[Mistake] = [
    (IndexOutOfRangeError, r"getitem: index 5 .*axis 0 of 2", of(lambda x: x[5], X)),
    (IndexOutOfRangeError, r"getitem: index 7 .*axis 1 of 3",
     of(lambda x: x[:, np.array([0, 7])], X)),
    (ShapeError, r"getitem: 3 indices .*rank 2", of(lambda x: x[0, 0, 0], X)),
    (DTypeError, r"getitem: index 1.5 of axis 0", of(lambda x: x[1.5], X)),
    (DTypeError, r"getitem: an index has dtype f32", of(lambda x, y: x[y], X, Y)),
    (ShapeError, r"getitem: .*two ellipses", of(lambda x: x[..., 0, ...], X)),
    (ConcretizationError, r"getitem: a traced bool mask", of(lambda x: x[x > 0], X)),
    (ConcretizationError, r"getitem: a slice has a traced bound", of(lambda x, i: x[: i[0]], X, I)),
    (DTypeError, r"take: an index has dtype f32", of(lambda x, y: rnp.take(x, y), X, Y)),
    (ShapeError, r"rank 1; x has rank 2", of(lambda x, i: rnp.take_along_axis(x, i, 0), X, I)),
    (MutationError, r"cannot be changed in place", of(lambda x: x.__setitem__(0, 1.0), X)),
]  # fmt: skip


def _branch(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def _leaks() -> Any:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x

    rlx.jit(keep)(X)
    return kept[0] + 1


TRACING: list[Mistake] = [
    (DTypeError, r"where: ", of(lambda x: rnp.where(x > 0, x), X)),  # type: ignore[call-overload]
    (ConcretizationError, r"nonzero returns a number", of(lambda x: rnp.where(x > 0), X)),
    (ConcretizationError, r"Python condition .* type bool", of(_branch, X)),
    (ConcretizationError, r"float\(\) .* type f32\[2, 3\]", of(lambda x: float(x), X)),
    (ConcretizationError, r"int\(\) .* type f32\[2, 3\]", of(lambda x: int(x), X)),
    (ConcretizationError, r"numpy.sin .* type f32\[2, 3\]", of(lambda x: np.sin(x), X)),
    (ConcretizationError, r"a NumPy function", of(lambda x: np.asarray(x), X)),
    (ConcretizationError, r"range or shape .*i64\[\]", of(lambda i: list(range(i[2])), I)),
    (ConcretizationError, r"item\(\)", of(lambda x: x.sum().item(), X)),
    (ShapeError, r"shape is a traced array", of(lambda i: rnp.zeros(i[2]), I)),
    (LeakedTracerError, r"f32\[2, 3\].*after the trace", _leaks),
    (DTypeError, r"zeros: shape is 1.5", of(lambda: rnp.zeros(1.5))),
    (InputError, r"type str is not an array", of(lambda x: rnp.add(x, "a"), X)),
]

DTYPES: list[Mistake] = [
    (DTypeError, r"bitwise_and.* f32", of(lambda x: x & x, X)),
    (DTypeError, r"300", of(lambda x: x + 300, np.ones(2, np.uint8))),
    (DTypeError, r"max: complex numbers have no order",
     of(lambda x: rnp.max(x), X.astype(np.complex64))),
    (RlxError, r"astype: .*'float31'", of(lambda x: x.astype("float31"), X)),
    (DTypeError, r"grad.* i64", lambda: rlx.grad(lambda i: i.sum())(I)),
    (DTypeError, r"floating result", lambda: rlx.grad(lambda x: rnp.argmax(x))(X)),
    (ShapeError, r"grad needs a scalar, and sin returns shape \(2, 3\)",
     lambda: rlx.grad(rnp.sin)(X)),
]  # fmt: skip

TRANSFORMS: list[Mistake] = [
    (InputError, r"maps over no argument", lambda: rlx.vmap(lambda x: x, in_axes=None)(X)),
    (ShapeError, r"no axis", lambda: rlx.vmap(lambda x: x)(1.0)),
    (ShapeError, r"vmap: .*differ in extent: .*2.*4", lambda: rlx.vmap(rnp.add)(X, Y)),
    (ShapeError, r"vmap: in_axes: axis 5 .*rank 2", lambda: rlx.vmap(rnp.sin, in_axes=5)(X)),
    (StaticArgumentError, r"argument 3; the function has 1",
     lambda: rlx.jit(lambda x: x, static_argnums=3)(X)),
    (StaticArgumentError, r"names 'b'; the function has a",
     lambda: rlx.jit(lambda a: a, static_argnames="b")(X)),
    (TraceError, r"static", lambda: rlx.jit(lambda x: x, static_argnums=0)(X)),
    (InputError, r"jit takes a function, not int",
     lambda: rlx.jit(3)),  # type: ignore[call-overload]  # the mistake
    (InputError, r"has_aux=True", lambda: rlx.grad(lambda x: x.sum(), has_aux=True)(X)),
    (InputError, r"holds an object of type str", lambda: rlx.jit(lambda x: x)({"a": "text"})),
    (RlxError, r"tangent of 'x' .*\(4,\).*\(2, 3\)", lambda: rlx.jvp(rnp.sin, (X,), (Y,))),
]  # fmt: skip

MORE_TRANSFORMS: list[Mistake] = [
    (InputError, r"donate_argnums names argument 3, .* has 1",
     lambda: rlx.jit(lambda x: x, donate_argnums=3)(X)),
    (InputError, r"argnums names argument 5, .* has 1",
     lambda: rlx.grad(lambda x: x.sum(), argnums=5)(X)),
    (StaticArgumentError, r"argument 1 of type list is not hashable",
     lambda: rlx.jit(lambda x, _: x, static_argnums=1)(X, [1])),
    (ShapeError, r"cotangent has shape \(4,\); the output has \(2, 3\)",
     lambda: rlx.vjp(rnp.sin, X)[1](Y)),
    (InputError, r"function returns an object of type str", of(lambda _: "text", X)),
    (ShapeError, r"pad mode is 'zero'", of(lambda x: rnp.pad(x, 1, mode="zero"), X)),
    (ShapeError, r"mask has shape \(4,\) and the array \(2, 3\)",
     of(lambda x, y: x.at[y > 0].set(1.0), X, Y)),
    (TraceError, r"len\(\) of an array without axes, of type f32", of(lambda x: len(x.sum()), X)),
    (TraceError, r"iteration of an array without axes", of(lambda x: list(x.sum()), X)),
]  # fmt: skip

TRACED = [*MORE_TRANSFORMS, *SHAPES, *INDICES, *TRACING, *DTYPES, *TRANSFORMS]


def _graph() -> Graph:
    graph = Graph("g")
    graph.set_outputs([graph.input("x", (3,)) + graph.param("w", (3,))])
    return graph


def _compiled() -> Any:
    return rlx.compile(_graph(), backend="reference", params={"w": np.zeros(3, np.float32)})


CALLS: list[Mistake] = [
    (InputError, r"'x' has shape \(4,\); it must be \(3,\)", lambda: _compiled()(Y)),
    (InputError, r"'x' has dtype int64; it must be", lambda: _compiled()(I)),
    (InputError, r"takes 1 inputs and was given 2", lambda: _compiled()(Y, Y)),
    (InputError, r"'y'", lambda: _compiled()(y=Y)),
    (InputError, r"'x' is given twice|x.*twice", lambda: _compiled()(Y[:3], x=Y[:3])),
    (InputError, r"params not set: w",
     lambda: rlx.compile(_graph(), backend="reference")(Y[:3])),
    (InputError, r"'v'", lambda: _compiled().set_param("v", Y[:3])),
    (InputError, r"'w' has shape \(4,\); it must be \(3,\)",
     lambda: _compiled().set_param("w", Y)),
    (UnsupportedError, r"backend 'cuda'", lambda: rlx.compile(_graph(), backend="cuda")),
    (GraphError, r"Graph, not function",
     lambda: rlx.compile(lambda x: x)),  # type: ignore[call-overload]  # the mistake
    (GraphError, r"no input or param 'z' \(has: ", lambda: _graph().leaf("z")),
    (GraphError, r"has no attribute 'axis'", lambda: ops.exp(_graph().leaf("x"), axis=0)),
]  # fmt: skip


def error_of(mistake: Mistake) -> RlxError:
    kind, pattern, use = mistake
    with pytest.raises(kind) as caught:
        use()
    assert re.search(pattern, caught.value.message), caught.value.message
    return caught.value


@pytest.mark.whole
@pytest.mark.parametrize("mistake", TRACED, ids=[each[1] for each in TRACED])
def test_a_mistake_in_a_traced_function_names_its_line_and_a_remedy(mistake: Mistake) -> None:
    error = error_of(mistake)
    assert error.source is not None
    assert error.source.file == __file__
    assert error.remedy


REMEDIES: list[tuple[Use, str]] = [
    (of(_branch, X), "where"),
    (of(lambda x: float(x), X), "astype"),
    (of(lambda i: list(range(i[2])), I), "static"),
    (of(lambda x: np.asarray(x), X), "rlx.numpy"),
    (of(lambda x: np.sin(x), X), "rlx.numpy.sin"),
    (of(lambda x: x.__setitem__(0, 1.0), X), "at"),
    (of(lambda x: x[x > 0], X), "where"),
    (of(lambda x, i: x[: i[0]], X, I), "dynamic_slice"),
    (of(lambda x, y: x[y], X, Y), "astype"),
    (of(lambda x: rnp.where(x > 0, x), X), "where(condition, x, y)"),  # type: ignore[call-overload]
    (of(lambda x: rnp.where(x > 0), X), "pass the number of elements"),
    (of(lambda x: x & x, X), "compare first"),
    (lambda: rlx.jit(lambda x, _: x)(X, "fast"), "static_argnames"),
]


@pytest.mark.whole
@pytest.mark.parametrize(("use", "words"), REMEDIES, ids=[words for _, words in REMEDIES])
def test_a_remedy_names_what_to_call(use: Use, words: str) -> None:
    with pytest.raises(RlxError, match=re.escape(words)):
        use()


def test_an_error_names_the_function_of_the_fault() -> None:
    with pytest.raises(RlxError) as caught:
        rlx.jit(_branch)(X)
    assert caught.value.source is not None
    assert caught.value.source.function == "_branch"


def test_an_array_that_left_its_trace_is_refused_inside_another_and_outside() -> None:
    kept: list[Any] = []

    def leak(x: Any) -> Any:
        kept.append(x + 1)
        return x

    def use(x: Any) -> Any:
        return x + kept[0]

    rlx.jit(leak, backend="reference")(X)
    with pytest.raises(LeakedTracerError, match="in leak") as caught:
        rlx.jit(use)(X)
    assert caught.value.source is not None
    assert caught.value.source.function == "use"
    with pytest.raises(LeakedTracerError):
        rnp.sin(kept[0])


def test_an_unsupported_dtype_is_named() -> None:
    with pytest.raises(DTypeError, match=str(np.dtype(np.clongdouble))):
        rlx.jit(lambda x: x)(X.astype(np.clongdouble))


@pytest.mark.whole
@pytest.mark.parametrize("mistake", CALLS, ids=[each[1] for each in CALLS])
def test_a_mistake_in_a_call_names_a_remedy(mistake: Mistake) -> None:
    assert error_of(mistake).remedy


def test_files_that_are_none_name_a_remedy(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("nothing of the kind")
    assert error_of((FormatError, r"notes.txt: not an rlx graph", lambda: load(text))).remedy


def test_an_artifact_that_lacks_a_param_or_names_another_says_what_to_do(tmp_path: Path) -> None:
    def name_another() -> Any:
        return rlx.aot(_graph(), tmp_path, weights={"v": "file"}, emit_only=True)

    def leave_one_out() -> Any:
        artifact = rlx.aot(_graph(), tmp_path, weights="file", params={"w": Y[:3]}, emit_only=True)
        return write_weights(artifact.manifest, tmp_path / "w.bin", {})

    assert error_of((InputError, "names 'v', which is not a param of 'g'", name_another)).remedy
    assert error_of((InputError, "param 'w' is missing", leave_one_out)).remedy


def test_an_index_out_of_range_at_run_time_names_a_remedy() -> None:
    words = "gather: index out of range at position 2: 2 for an axis of extent 2"
    assert error_of((IndexOutOfRangeError, words, of(lambda x, i: x[i], X, I))).remedy


@pytest.mark.slow
def test_every_error_of_users_names_a_remedy() -> None:
    root = Path(rlx.__file__).parent
    silent = [
        f"{path.relative_to(root)}:{line}"
        for path in sorted(root.rglob("*.py"))
        for line in _raised_without_remedy(path.read_text())
    ]
    assert not silent


def _raised_without_remedy(text: str) -> list[int]:
    """Return the lines that raise an error of rlx by its class, without `remedy=`."""
    kinds = {name for name, kind in vars(rlx.errors).items() if _is_told_to_users(kind)}
    calls = [n.exc for n in ast.walk(ast.parse(text))
             if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call)]  # fmt: skip
    return [
        call.lineno
        for call in calls
        if ast.unparse(call.func) in kinds
        and all(keyword.arg != "remedy" for keyword in call.keywords)
    ]


def _is_told_to_users(kind: object) -> bool:
    is_error = isinstance(kind, type) and issubclass(kind, RlxError)
    return is_error and kind is not rlx.errors.InternalError


def test_jacobians_of_functions_of_nothing_are_empty() -> None:
    nothing = np.zeros(0, np.float32)
    for jacobian in (rlx.jacfwd, rlx.jacrev):
        assert jacobian(lambda x: x * 2)(nothing).shape == (0, 0)


def test_vmap_calls_arguments_by_their_names() -> None:
    graph = rlx.jit(rlx.vmap(lambda first, *, second: first + second["a"])).graph
    named = graph(X, second={"a": X})
    assert [str(value.node.name) for value in named.inputs] == ["first", "second_a"]

    def fails(weights: Any, index: Any) -> Any:
        return weights + "text" if index is None else rnp.reshape(weights, (7, index.shape[0]))

    with pytest.raises(InputError, match="argument 'weights'"):
        rlx.vmap(fails)("text", X)


def test_jit_names_the_argument_that_is_no_array() -> None:
    with pytest.raises(InputError, match=r"^argument 'second_b' holds an object of type str"):
        rlx.jit(lambda first, second: (first, second))(X, {"a": X, "b": "text"})
    with pytest.raises(InputError, match=r"^argument 'third' holds"):
        rlx.jit(lambda first, *, third: (first, third), static_argnums=0)(1, third="text")


def test_errors_of_several_functions_bear_one_name() -> None:
    with pytest.raises(ShapeError) as caught:
        rnp.stack([X, X[0]])
    assert caught.value.message == "stack: the arrays have shapes [(2, 3), (3,)]; they must agree"

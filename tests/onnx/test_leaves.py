"""Operators on results of single trees: applied to leaves, and sums of them as one ensemble."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rlx.onnx import InferenceSession, load  # noqa: E402
from tests.onnx.models import model, node  # noqa: E402

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
DOMAIN = "ai.onnx.ml"
FEATURES = 6
WEIGHTS = {
    "one": np.ones(1, np.float32),
    "row": np.array([[1.5, -2, 0.25]], np.float32),
    "rows": np.linspace(0.1, 2, 40, dtype=np.float32).reshape(40, 1),
    "column": np.array([-1, 1]),
}


def tree(rng: np.random.Generator, x: str, name: str, depth: int = 4) -> Any:
    """Return a drawn tree of numbered leaves as a regressor, as isolation forests have it."""
    kinds: list[str] = []
    children: list[tuple[int, int]] = []

    def grow(level: int) -> int:
        place = len(kinds)
        is_leaf = level == depth or (level > 1 and rng.random() < 0.3)
        kinds.append("LEAF" if is_leaf else "BRANCH_LEQ")
        children.append((0, 0))
        if not is_leaf:
            children[place] = grow(level + 1), grow(level + 1)
        return place

    grow(0)
    count, leaves = len(kinds), [i for i, kind in enumerate(kinds) if kind == "LEAF"]
    return node(
        "TreeEnsembleRegressor", [x], [name], domain=DOMAIN, n_targets=1,
        nodes_treeids=[0] * count, nodes_nodeids=list(range(count)), nodes_modes=kinds,
        nodes_featureids=rng.integers(3, size=count).tolist(),
        nodes_values=rng.normal(size=count).astype(np.float32).tolist(),
        nodes_truenodeids=[yes for yes, _ in children],
        nodes_falsenodeids=[no for _, no in children], target_treeids=[0] * len(leaves),
        target_nodeids=leaves, target_ids=[0] * len(leaves),
        target_weights=[float(leaf) for leaf in leaves],
    )  # fmt: skip


def chain(rng: np.random.Generator, number: int) -> list[Any]:
    """Return nodes that pick columns, walk a tree and compute `y{number}` of the leaf's number."""
    at = str(number)
    keys = list(range(0, 31, 2))
    picked = rng.permutation(FEATURES)[:3]
    columns = onnx.numpy_helper.from_array(picked.astype(np.int64))
    pick = (
        node("Gather", ["x", "c" + at], ["p" + at], axis=1)
        if number % 2
        else node("ArrayFeatureExtractor", ["x", "c" + at], ["p" + at], domain=DOMAIN)
    )
    return [
        node("Constant", [], ["c" + at], value=columns),
        pick,
        tree(rng, "p" + at, "t" + at),
        node("Cast", ["t" + at], ["i" + at], to=INT64),
        node("LabelEncoder", ["i" + at], ["l" + at], domain=DOMAIN, keys_int64s=keys,
             values_floats=rng.normal(size=len(keys)).tolist(), default_float=0.3),
        node("Reshape", ["l" + at, "column"], ["r" + at]),
        node("Greater", ["r" + at, "one"], ["g" + at]),
        node("Cast", ["g" + at], ["f" + at], to=FLOAT),
        node("Mul", ["f" + at, "t" + at], ["m" + at]),
        node("Add", ["m" + at, "r" + at], ["y" + at]),
    ]  # fmt: skip


def drawn(
    trees: int, tail: list[Any] | None = None, outputs: list[str] | None = None, seed: int = 0
) -> Any:
    """Return chains of drawn trees, and nodes after them; by default a sum of all."""
    rng = np.random.default_rng(seed)
    names = [f"y{number}" for number in range(trees)]
    nodes = [each for number in range(trees) for each in chain(rng, number)]
    nodes += [node("Sum", names, ["sum"])] if tail is None else tail
    made = model(nodes, {"x": (FLOAT, [None, FEATURES])}, outputs or ["sum"], WEIGHTS, opset=18)
    made.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 3))
    return made


def rows(count: int) -> dict[str, Any]:
    x = np.random.default_rng(count).normal(size=(count, FEATURES)).astype(np.float32)
    x[0] = np.nan
    return {"x": x}


def loops(made: Any) -> int:
    graph = load(made, dims={"x": (64, FEATURES)})
    return sum(each.op.name == "scan" for each in graph.nodes)


def separate(trees: int, given: dict[str, Any], backend: str = "reference") -> list[Any]:
    """Return what the chains give, as outputs of a model without sums."""
    names = [f"y{number}" for number in range(trees)]
    return list(InferenceSession(drawn(trees, [], names), backend=backend).run(None, given))


def test_a_sum_over_trees_is_one_walk() -> None:
    assert loops(drawn(7)) == loops(drawn(2)) > 0


@pytest.mark.parametrize("sums", ["Sum", "Add", "reversed Add"])
@pytest.mark.parametrize("count", [1, 32])
def test_a_sum_over_trees_has_the_order_of_the_model(count: int, sums: str) -> None:
    tail = None
    if sums != "Sum":
        pairs = [("y0", "y1"), ("s1", "y2"), ("s2", "y3")]
        pairs = [pair[::-1] for pair in pairs] if "reversed" in sums else pairs
        tail = [node("Add", pair, [f"s{n}"]) for n, pair in enumerate(pairs, start=1)]
    given = rows(count)
    made = drawn(4, tail, None if tail is None else ["s3"])
    (found,) = InferenceSession(made, backend="llvm").run(None, given)
    expected = functools.reduce(np.add, separate(4, given, "llvm"))
    if count < 32:  # all trees are walked at once, and added in the order of a reduction
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


TAILS: dict[str, tuple[list[Any], Any]] = {
    "twice the same tree": ([node("Add", ["y0", "y0"], ["z"])], lambda a, _: a + a),
    "a row of three": ([node("Mul", ["y0", "row"], ["z"])], lambda a, _: a * WEIGHTS["row"]),
    "a number per row": ([node("Mul", ["y0", "rows"], ["z"])], lambda a, _: a * WEIGHTS["rows"]),
    "two trees": ([node("Mul", ["y0", "y1"], ["z"])], lambda a, b: a * b),
    "a sum of sums": (
        [
            node("Add", ["y0", "y1"], ["s"]),
            node("Add", ["y1", "y0"], ["t"]),
            node("Add", ["s", "t"], ["z"]),
        ],
        lambda a, b: (a + b) + (b + a),
    ),
    "a scaled sum": (
        [node("Sum", ["y0", "y1"], ["s"]), node("Sub", ["s", "one"], ["z"])],
        lambda a, b: a + b - np.float32(1),
    ),
    "a product": ([node("MatMul", ["y0", "row"], ["z"])], lambda a, _: a * WEIGHTS["row"]),
    "a sum of integers": (
        [node("Add", ["i0", "i1"], ["n"]), node("Sub", ["n", "n"], ["o"]),
         node("Cast", ["o"], ["p"], to=FLOAT), node("Add", ["p", "y0"], ["z"])],
        lambda a, _: a,
    ),
    "a sum over rows": (
        [node("ReduceMax", ["y0"], ["m"], keepdims=1), node("Add", ["m", "y1"], ["z"])],
        lambda a, b: a.max() + b,
    ),
    "columns of both": (
        [node("Concat", ["y0", "y1"], ["z"], axis=1)], lambda a, b: np.concatenate([a, b], 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAILS)
def test_operators_on_leaf_values_are_those_on_arrays(case: str) -> None:
    tail, compute = TAILS[case]
    given = rows(40)
    (found,) = InferenceSession(drawn(2, tail, ["z"]), backend="reference").run(None, given)
    np.testing.assert_array_equal(found, compute(*separate(2, given)))


def test_sub_graphs_read_leaf_values() -> None:
    branches = {
        name: onnx.helper.make_graph(
            [node(op, ["y0", "y1"], [name])], name, [],
            [onnx.helper.make_tensor_value_info(name, FLOAT, None)],
        )
        for name, op in (("then", "Add"), ("other", "Sub"))
    }  # fmt: skip
    tail = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Less", ["most", "one"], ["flag"]),
        node("Squeeze", ["flag"], ["is_less"]),
        node("If", ["is_less"], ["z"], then_branch=branches["then"], else_branch=branches["other"]),
        node("Add", ["z", "y0"], ["w"]),
    ]
    made = drawn(2, tail, ["w", "y0"])
    for scale in (0.0, 3.0):
        given = {"x": np.full((33, FEATURES), scale, np.float32)}
        a, b = separate(2, given)
        found, first = InferenceSession(made, backend="reference").run(None, given)
        np.testing.assert_array_equal(found, (a - b if scale else a + b) + a)
        np.testing.assert_array_equal(first, a)


@pytest.mark.parametrize("count", [5, 60])
@pytest.mark.parametrize("seed", range(3))
def test_drawn_forests_agree_with_onnx_runtime(count: int, seed: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    made, given = drawn(9, seed=seed), rows(count)
    (expected,) = runtime.InferenceSession(made.SerializeToString()).run(None, given)
    for backend in ("reference", "llvm"):
        (found,) = InferenceSession(made, backend=backend).run(None, given)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)

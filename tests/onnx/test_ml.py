"""Operators of ai.onnx.ml: labels and scores are those of ONNX Runtime."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx  # noqa: E402
from rlx.cli.main import main  # noqa: E402
from rlx.errors import FormatError, InputError, UnsupportedError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402
from tests.onnx.models import FLOAT, INT64, model, node  # noqa: E402

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(12, 4)).astype(np.float32)
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def numbers(*shape: int) -> list[float]:
    return [float(x) for x in RNG.normal(size=shape).astype(np.float32).ravel()]


def ml(op: str, outputs: list[str], **attributes: Any) -> Any:
    """Return a model of one node of ai.onnx.ml over `x` `[rows, 4]`."""
    made = model(
        [node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)],
        {"x": (FLOAT, ["rows", X.shape[1]])}, outputs,
    )  # fmt: skip
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    return made


def agree(made: Any) -> list[Array]:
    """Compare with ONNX Runtime; return our outputs."""
    peer = pytest.importorskip("onnxruntime")
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = InferenceSession(made, backend="reference").run(None, {"x": X})
    for ours, expected in zip(found, theirs.run(None, {"x": X}), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    return found


def machine(classes: int, kernel: str = "RBF", **how: Any) -> Any:
    """Return a support vector machine with three vectors a class."""
    pairs, vectors = classes * (classes - 1) // 2, 3 * classes
    return ml(
        "SVMClassifier", ["label", "scores"],
        kernel_type=kernel, kernel_params=[0.3, 0.1, 2.0], classlabels_ints=list(range(classes)),
        support_vectors=numbers(vectors, 4), vectors_per_class=[3] * classes,
        coefficients=numbers(classes - 1, vectors), rho=numbers(pairs), **how,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors_classify(kernel: str) -> None:
    agree(machine(3, kernel))


@pytest.mark.parametrize("post_transform", TRANSFORMS)
def test_a_machine_of_two_classes_scores_both(post_transform: str) -> None:
    _, scores = agree(machine(2, post_transform=post_transform))
    assert scores.shape == (len(X), 2)


@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_of_pairs_are_coupled(classes: int) -> None:
    pairs = classes * (classes - 1) // 2
    _, scores = agree(machine(classes, prob_a=[-1.5] * pairs, prob_b=numbers(pairs)))
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)


def test_a_linear_machine_has_a_score_for_each_class() -> None:
    agree(ml("SVMClassifier", ["label", "scores"], kernel_type="LINEAR", rho=[0.1],
             kernel_params=[0.0] * 3, classlabels_ints=[3, 1, 2],
             coefficients=numbers(3, 4)))  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vectors_regress(kernel: str, one_class: int) -> None:
    agree(ml("SVMRegressor", ["y"], kernel_type=kernel, kernel_params=[0.3, 0.1, 2.0],
             n_supports=5, support_vectors=numbers(5, 4), coefficients=numbers(5), rho=[0.2],
             one_class=one_class))  # fmt: skip


def stump(tree: int, feature: int, limit: float) -> dict[str, list[Any]]:
    """Return a node with two leaves."""
    return {
        "nodes_treeids": [tree] * 3, "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [feature, 0, 0], "nodes_values": [limit, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
    }  # fmt: skip


def forest(votes: dict[tuple[int, int], list[tuple[int, float]]], **how: Any) -> Any:
    """Return stumps; `votes` says by (tree, leaf) which classes gain what."""
    trees = [stump(tree, tree % 4, 0.1 * tree) for tree in range(3)]
    nodes = {key: [x for tree in trees for x in tree[key]] for key in trees[0]}
    rows = [(*leaf, *vote) for leaf, given in votes.items() for vote in given]
    treeids, nodeids, ids, weights = zip(*rows, strict=True)
    return ml(
        "TreeEnsembleClassifier", ["label", "scores"], **nodes, class_treeids=treeids,
        class_nodeids=nodeids, class_ids=ids, class_weights=weights, **how,
    )  # fmt: skip


LEAVES = [(tree, leaf) for tree in range(3) for leaf in (1, 2)]


@pytest.mark.parametrize("post_transform", TRANSFORMS)
def test_trees_vote_for_several_classes(post_transform: str) -> None:
    votes = {leaf: list(zip(range(3), numbers(3), strict=True)) for leaf in LEAVES}
    labels, _ = agree(
        forest(votes, classlabels_int64s=[5, 7, 9], post_transform=post_transform,
               base_values=[0.1, 0.2, 0.3])
    )  # fmt: skip
    assert set(labels.tolist()) <= {5, 7, 9}


@pytest.mark.parametrize("post_transform", TRANSFORMS)
@pytest.mark.parametrize("is_share", [False, True])
def test_trees_decide_between_two_classes(post_transform: str, is_share: bool) -> None:
    scale = [0.3 * abs(x) if is_share else x for x in numbers(6)]
    votes = {leaf: [(0, weight)] for leaf, weight in zip(LEAVES, scale, strict=True)}
    agree(forest(votes, classlabels_int64s=[0, 1], post_transform=post_transform))


COLORS = ["blue", "green", "red"]
NAMED: dict[str, Any] = {
    "trees": forest(
        {leaf: list(zip(range(3), numbers(3), strict=True)) for leaf in LEAVES},
        classlabels_strings=COLORS,
    ),
    "two-classes": forest({leaf: [(0, 0.3)] for leaf in LEAVES[:4]},
                          classlabels_strings=COLORS[:2]),
    "linear": ml("LinearClassifier", ["label", "scores"], coefficients=numbers(3, 4),
                 intercepts=numbers(3), classlabels_strings=COLORS, post_transform="SOFTMAX"),
    "machine": ml("SVMClassifier", ["label", "scores"], kernel_type="LINEAR", rho=[0.1],
                  kernel_params=[0.0] * 3, classlabels_strings=COLORS,
                  coefficients=numbers(3, 4)),
}  # fmt: skip


def types_of(made: Any, **types: Any) -> Any:
    """Say which types the outputs of a model have: ONNX Runtime asks for those of maps."""
    for output in made.graph.output:
        if output.name in types:
            output.type.CopyFrom(types[output.name])
    return made


@pytest.mark.parametrize("name", NAMED)
def test_labels_may_be_strings(name: str) -> None:
    peer = pytest.importorskip("onnxruntime")
    made = NAMED[name]
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, scores = theirs.run(None, {"x": X})
    session = InferenceSession(made, backend="reference")
    found, ours = session.run(None, {"x": X})
    assert found.dtype == object
    assert found.tolist() == labels.tolist()
    np.testing.assert_allclose(ours, scores, rtol=1e-4, atol=1e-5)
    session.run(None, {"x": -X})
    assert len(session._stages) == 1


def zipped(labels: dict[str, Any]) -> Any:
    """Return a classifier as skl2onnx writes it: with maps from labels to probabilities."""
    classes = {key.replace("int64s", "ints"): value for key, value in labels.items()}
    made = ml("LinearClassifier", ["label", "scores"], coefficients=numbers(3, 4),
              intercepts=numbers(3), post_transform="SOFTMAX", **classes)  # fmt: skip
    made.graph.node.append(
        node("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", **labels)
    )
    key = onnx.TensorProto.STRING if "classlabels_strings" in labels else onnx.TensorProto.INT64
    value = onnx.helper.make_tensor_type_proto(FLOAT, [])
    maps = onnx.helper.make_sequence_type_proto(onnx.helper.make_map_type_proto(key, value))
    made.graph.output[1].name = "probabilities"
    return types_of(made, probabilities=maps)


@pytest.mark.parametrize(
    "labels", [{"classlabels_strings": COLORS}, {"classlabels_int64s": [3, 5, 8]}], ids=str
)
def test_probabilities_are_maps_by_label(labels: dict[str, Any]) -> None:
    peer = pytest.importorskip("onnxruntime")
    made = zipped(labels)
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    session = InferenceSession(made, backend="reference")
    assert session.get_outputs()[1].type == theirs.get_outputs()[1].type
    for x in (X, -X):
        expected_labels, expected = theirs.run(None, {"x": x})
        found_labels, found = session.run(None, {"x": x})
        assert found_labels.tolist() == expected_labels.tolist()
        assert [list(row) for row in found] == [list(row) for row in expected]
        for ours, row in zip(found, expected, strict=True):
            assert isinstance(ours, dict)
            np.testing.assert_allclose(list(ours.values()), list(row.values()), rtol=1e-4)
    assert len(session._stages) == 1
    assert session._fast_path is not None  # maps are made of its outputs, without looking it up


def test_the_command_shows_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = zipped({"classlabels_strings": COLORS})
    (tmp_path / "colors.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "x.npy", X)
    given = [str(tmp_path / "colors.onnx"), "--input", f"x={tmp_path / 'x.npy'}"]
    assert main(["run", *given, "--backend", "reference"]) == 0
    shown = capsys.readouterr().out
    labels = InferenceSession(made, backend="reference").run(["label"], {"x": X})[0]
    listed = " ".join(map(repr, labels.tolist()))
    assert f"output label: int64[{len(X)}]\n  [{listed}]\n" in shown
    assert f"output probabilities: float32[{len(X)}, 3], of {', '.join(COLORS)}\n" in shown


def test_maps_that_are_not_asked_for_are_not_made() -> None:
    session = InferenceSession(zipped({"classlabels_int64s": [3, 5, 8]}), backend="reference")
    labels, maps = session.run(None, {"x": X})
    assert [pickle.loads(pickle.dumps(each)) for each in maps] == maps
    assert {each.dtype for each in maps} == {np.dtype(np.float32)}
    path = session._fast_path
    assert path is not None
    found = path({"x": X}, ["label"])
    assert found is not None
    assert set(found) == {"label"}
    assert session.run(["label"], {"x": X})[0].tolist() == labels.tolist()
    with pytest.raises(InputError, match="no output 'maps'"):
        session.run(["label", "maps"], {"x": X})


def labelled(*nodes: Any, inputs: dict[str, Any] | None = None) -> Any:
    """Return a model of nodes on strings, of which `names` are `COLORS`."""
    inputs = {"x": (INT64, ["rows"]), **(inputs or {})}
    made = model([*nodes], inputs, ["y"], {"names": np.asarray(COLORS, object)}, opset=17)
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    return types_of(made, y=onnx.helper.make_tensor_type_proto(onnx.TensorProto.STRING, None))


EXTRACTED = node("ArrayFeatureExtractor", ["names", "x"], ["z"], domain="ai.onnx.ml")
PLACES = np.asarray([2, 0, 0, 1])
MOVED = {
    # What skl2onnx writes for most classifiers with string labels.
    "extracted": ([EXTRACTED, node("Reshape", ["z", "shape"], ["y"])], ["red", "blue", "blue",
                                                                      "green"]),
    "gathered": ([node("Gather", ["names", "x"], ["y"])], ["red", "blue", "blue", "green"]),
    "joined": (
        [node("Gather", ["names", "x"], ["z"]), node("Concat", ["names", "z"], ["y"], axis=0)],
        [*COLORS, "red", "blue", "blue", "green"],
    ),
    "chosen": (
        [node("Gather", ["names", "x"], ["z"]), node("Cast", ["x"], ["b"], to=9),
         node("Where", ["b", "z", "first"], ["y"])],
        ["red", "none", "none", "green"],
    ),
    "encoded": (
        [node("Gather", ["names", "x"], ["z"]),
         node("LabelEncoder", ["z"], ["y"], domain="ai.onnx.ml", keys_strings=COLORS,
              values_strings=["b", "g", "r"])],
        ["r", "b", "b", "g"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_strings_are_moved_by_their_numbers(name: str) -> None:
    nodes, expected = MOVED[name]
    made = labelled(*nodes)
    for title, array in (("shape", np.asarray([-1])), ("first", np.asarray(["none"], object))):
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, title))
    session = InferenceSession(made, backend="reference")
    assert session.run(None, {"x": PLACES})[0].tolist() == expected
    session.run(None, {"x": PLACES[::-1].copy()})
    assert len(session._stages) == 1
    graph = rlx.onnx.load(made, dims={"rows": 4})
    (numbers,) = rlx.compile(graph, backend="reference")(PLACES)
    assert [graph.output_labels[0][n] for n in numbers] == expected
    peer = pytest.importorskip("onnxruntime")
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    assert theirs.run(None, {"x": PLACES})[0].tolist() == expected


def test_string_inputs_are_moved_by_numpy() -> None:
    kind = onnx.TensorProto.STRING
    made = labelled(node("Transpose", ["words"], ["w"]), node("Gather", ["w", "x"], ["y"]),
                    inputs={"words": (kind, [2, 3])})  # fmt: skip
    words = np.asarray([["a", "b", "c"], ["d", "e", "f"]], object)
    (found,) = InferenceSession(made, backend="reference").run(None, {"x": PLACES, "words": words})
    assert found.tolist() == words.T[PLACES].tolist()


def test_strings_become_numbers_by_a_table() -> None:
    digits = node("Constant", [], ["digits"], value_strings=["4", "-1", "7"])
    made = labelled(
        digits, node("Gather", ["digits", "x"], ["z"]), node("Cast", ["z"], ["y"], to=7)
    )
    made.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", INT64, ["rows"]))
    (found,) = rlx.compile(rlx.onnx.load(made, dims={"rows": 4}), backend="reference")(PLACES)
    np.testing.assert_array_equal(found, [7, 4, 4, -1])


def test_numbers_are_encoded_as_strings() -> None:
    peer = pytest.importorskip("onnxruntime")
    made = ml("LabelEncoder", ["y"], keys_floats=[1.0, 2.0], values_strings=["one", "two"],
              default_string="many")  # fmt: skip
    x = np.asarray([[1, 2, 3, 1]], np.float32)
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = InferenceSession(made, backend="reference").run(None, {"x": x})
    assert (
        found.tolist() == theirs.run(None, {"x": x})[0].tolist() == [["one", "two", "many", "one"]]
    )


@pytest.mark.parametrize(
    ("keys", "x"),
    [
        ({"keys_int64s": [3, 4, 5, 4]}, np.arange(8)),
        ({"keys_int64s": [-9, 70, 5, 70]}, np.asarray([-9, 5, 6, 70, 2**40])),
        ({"keys_floats": [1.5, np.nan, -0.0, 1.5]}, np.asarray([1.5, np.nan, 0.0, 2.0], "f4")),
    ],
)
def test_keys_are_found_among_ranges_gaps_and_nan(keys: dict[str, Any], x: Any) -> None:
    peer = pytest.importorskip("onnxruntime")
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    how = {**keys, "values_floats": [1.0, 2.0, 3.0, 4.0], "default_float": -5.0}
    made = model([node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **how)],
                 {"x": (kind, [len(x)])}, ["y"])  # fmt: skip
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 4))
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = theirs.run(None, {"x": x})
    for backend in ("reference", "llvm"):
        (y,) = InferenceSession(made, backend=backend).run(None, {"x": x})
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("strings", [False, True])
def test_the_first_encoder_of_labels_numbers_its_classes(strings: bool) -> None:
    made = ml("LabelEncoder", ["y"], classes_strings=["a", "b"], default_string="z")
    given: Any = [["b", "a", "c"]] if strings else [[1, 0, 2]]
    expected: Any = [[1, 0, -1]] if strings else [["b", "a", "z"]]
    kind = onnx.TensorProto.STRING if strings else INT64
    made.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("x", kind, [1, 3]))
    next(o for o in made.opset_import if o.domain == "ai.onnx.ml").version = 1
    x = np.asarray(given, object if strings else np.int64)
    (found,) = InferenceSession(made, backend="reference").run(None, {"x": x})
    assert found.tolist() == expected


def test_categories_may_be_strings() -> None:
    peer = pytest.importorskip("onnxruntime")
    made = ml("OneHotEncoder", ["y"], cats_strings=["a", "b"])
    made.graph.input[0].CopyFrom(
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [1, 3])
    )
    x = np.asarray([["b", "a", "c"]], object)
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = InferenceSession(made, backend="reference").run(None, {"x": x})
    np.testing.assert_array_equal(found, theirs.run(None, {"x": x})[0])


@pytest.mark.parametrize("strings", [True, False])
def test_what_is_no_category_is_an_error_where_the_model_asks_for_one(strings: bool) -> None:
    """Where it is none, what follows is compiled once, for all elements."""
    names: dict[str, Any] = {"cats_strings": ["a", "b"]} if strings else {"cats_int64s": [3, 7]}
    dtype: Any = object if strings else np.int64
    known, strange = (["b", "a", "b"], "c") if strings else ([7, 3, 7], 5)
    encode = node("OneHotEncoder", ["x"], ["z"], domain="ai.onnx.ml", zeros=0, **names)
    kind = onnx.TensorProto.STRING if strings else INT64
    made = model([encode, node("Exp", ["z"], ["y"])], {"x": (kind, [3])}, ["y"])
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    session = InferenceSession(made, backend="reference")
    for order in (known, known[::-1], known[1:] + known[:1]):
        (found,) = session.run(None, {"x": np.asarray(order, dtype)})
        ones = np.asarray([[each == known[1], each == known[0]] for each in order], np.float32)
        np.testing.assert_allclose(found, np.exp(ones), rtol=1e-6)
    assert len([stage for stage in session._stages.values() if stage.run is not None]) == 1
    with pytest.raises(InputError, match=f"(?s)OneHotEncoder.*{strange!r} is none of the 2 .*z"):
        session.run(None, {"x": np.asarray([*known[:2], strange], dtype)})
    if not strings:
        with pytest.raises(UnsupportedError, match=r"(?s)zeros=0.*InferenceSession"):
            rlx.onnx.load(made)


@pytest.mark.parametrize("text", ["12x", "", "1_000", "300", "-7e40"])
def test_a_string_that_is_no_number_is_an_error_with_the_string(text: str) -> None:
    cast = node("Cast", ["x"], ["y"], to=onnx.TensorProto.UINT8)
    made = model([cast], {"x": (onnx.TensorProto.STRING, [2])}, ["y"])
    session = InferenceSession(made, backend="reference")
    assert session.run(None, {"x": np.asarray(["7", "1e2"], object)})[0].tolist() == [7, 100]
    with pytest.raises(InputError, match=f"(?s)Cast.*{text!r} is no uint8 number.*Cast_y"):
        session.run(None, {"x": np.asarray(["7", text], object)})


@pytest.mark.parametrize(("kind", "least", "largest"), [("UINT8", 0, 255), ("INT4", -8, 7)])
def test_integers_in_strings_never_wrap(kind: str, least: int, largest: int) -> None:
    cast = node("Cast", ["x"], ["z"], to=getattr(onnx.TensorProto, kind))
    back = node("Cast", ["z"], ["y"], to=INT64)
    made = model([cast, back], {"x": (onnx.TensorProto.STRING, [2])}, ["y"], opset=21)
    session = InferenceSession(made, backend="reference")
    ends = np.asarray([str(least), f"{largest}.5"], object)
    assert session.run(None, {"x": ends})[0].tolist() == [least, largest]
    for text in (f"{least - 1}", f"{largest + 1}", f"{largest + 1}e0", "nan", "-inf"):
        with pytest.raises(InputError, match=f"'{text}' is no .*{kind.lower()} number"):
            session.run(None, {"x": np.asarray(["1", text], object)})


def test_large_integers_in_strings_lose_no_digits() -> None:
    cast = node("Cast", ["x"], ["y"], to=INT64)
    made = model([cast], {"x": (onnx.TensorProto.STRING, [1])}, ["y"])
    x = np.asarray(["9007199254740993"], object)
    (found,) = InferenceSession(made, backend="reference").run(None, {"x": x})
    assert found.tolist() == [2**53 + 1]


def taking_maps(key: int, value: int, *nodes: Any) -> Any:
    """Return a model of a map `x` whose last output is `y`."""
    map_type = onnx.helper.make_map_type_proto(key, onnx.helper.make_tensor_type_proto(value, []))
    made = model(nodes, {"x": (FLOAT, [])}, ["y"])
    made.graph.input[0].type.CopyFrom(map_type)
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    return made


def test_maps_become_rows_and_what_follows_is_compiled_once() -> None:
    peer = pytest.importorskip("onnxruntime")
    made = taking_maps(
        onnx.TensorProto.STRING, FLOAT,
        node("DictVectorizer", ["x"], ["row"], domain="ai.onnx.ml", string_vocabulary=COLORS),
        node("Exp", ["row"], ["y"]),
    )  # fmt: skip
    session = InferenceSession(made, backend="reference")
    assert session.get_inputs()[0].type == "map(string,tensor(float))"
    theirs = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for given in ({"red": 2.0}, {"blue": 1.0, "green": -1.0, "white": 5.0}):
        (found,) = session.run(None, {"x": given})
        np.testing.assert_allclose(found, theirs.run(None, {"x": given})[0], rtol=1e-6)
    compiled = [stage for stage in session._stages.values() if stage.run is not None]
    assert len(compiled) == 1
    with pytest.raises(InputError, match="must be a dict"):
        session.run(None, {"x": [1.0]})


@pytest.mark.parametrize(
    ("how", "expected"),
    [({}, [[1.5, 2.5]]), ({"map_form": "SPARSE", "max_map": 4}, [[0.0, 1.5, 0.0, 2.5]]),
     ({"cast_to": "TO_INT64"}, [[1, 2]])],
)  # fmt: skip
def test_maps_are_cast_to_rows(how: dict[str, Any], expected: list[list[float]]) -> None:
    cast = node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", **how)
    session = InferenceSession(taking_maps(INT64, FLOAT, cast), backend="reference")
    (found,) = session.run(None, {"x": {3: 2.5, 1: 1.5}})
    assert found.tolist() == expected
    if how.get("map_form") == "SPARSE":
        with pytest.raises(FormatError, match="key 9 is outside of 4 entries"):
            session.run(None, {"x": {9: 1.0}})


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (zipped({"classlabels_strings": COLORS}), (tuple(COLORS), tuple(COLORS))),
        (zipped({"classlabels_int64s": [3, 5, 8]}), ((), (3, 5, 8))),
    ],
    ids=["strings", "integers"],
)
def test_a_graph_has_the_numbers_and_the_labels(made: Any, labels: Any, tmp_path: Any) -> None:
    graph = rlx.onnx.load(made, dims={"rows": len(X)})
    assert graph.output_labels == labels
    chosen, scores = rlx.compile(graph, backend="reference")(X)
    names, maps = InferenceSession(made, backend="reference").run(None, {"x": X})
    assert [labels[0][at] if labels[0] else at for at in chosen] == names.tolist()
    assert [dict(zip(labels[1], row, strict=True)) for row in scores.tolist()] == maps
    rlx.aot(graph, tmp_path, name="colors", emit_only=True)
    header = (tmp_path / "colors.h").read_text()
    written = ", ".join(f'"{each}"' if isinstance(each, str) else str(each) for each in labels[1])
    assert f"_PROBABILITIES_LABELS {{ {written} }}" in header

"""The third door as users open it: text, bytes, files, trees, symbolic extents, errors, limits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'rlx[jax]'")

import jax.numpy as jnp  # noqa: E402  after JAX is known to be there
from jax import export  # noqa: E402

from rlx.cli.main import main  # noqa: E402
from rlx.stablehlo.interpret import rule_names  # noqa: E402
from tests.hostile_names import COMMAND  # noqa: E402

X = np.linspace(0.1, 1, 12, dtype="f4").reshape(4, 3)


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w).sum(0) * x.shape[0]


W = np.full((3, 2), 0.5, "f4")


def made(function: Any = layer, *types: Any) -> Any:
    return export.export(jax.jit(function))(*(types or (X, W)))


def with_open_rows() -> Any:
    (rows,) = export.symbolic_shape("rows")
    types = jax.ShapeDtypeStruct((rows, 3), np.float32), jax.ShapeDtypeStruct((3, 2), np.float32)
    return made(layer, *types)


@pytest.mark.parametrize("form", ["text", "bytes", "path"])
def test_text_bytes_and_files_are_one_program(form: str, tmp_path: Path) -> None:
    exported = made()
    source: Any = exported.mlir_module() if form == "text" else exported.mlir_module_serialized
    if form == "path":
        (tmp_path / "model.stablehlo").write_bytes(source)
        source = tmp_path / "model.stablehlo"
    np.testing.assert_allclose(rlx.from_stablehlo(source)(X, W), layer(X, W), 1e-5)


def test_an_export_takes_and_returns_its_trees() -> None:
    pytest.importorskip("flatbuffers", reason="pip install flatbuffers")
    exported = made(lambda d, y: {"a": d["x"] * 2, "b": (y, d["z"] + 1)}, {"x": X, "z": W}, X)
    found = rlx.from_stablehlo(bytes(exported.serialize()))({"x": X, "z": W}, X)
    np.testing.assert_array_equal(found["a"], 2 * X)
    np.testing.assert_array_equal(found["b"][1], W + 1)
    with pytest.raises(rlx.errors.InputError, match="structure"):
        rlx.from_stablehlo(bytes(exported.serialize()))({"x": X}, X)


def test_an_export_without_jax_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax.export", None)
    with pytest.raises(rlx.errors.ToolchainError, match=r"pip install 'rlx\[jax\]'"):
        rlx.from_stablehlo(b"\0\x10 an export")


def test_it_is_a_function_for_transformations() -> None:
    function = rlx.from_stablehlo(made(lambda x, w: layer(x, w).sum()).mlir_module_serialized)
    theirs = jax.grad(lambda x: layer(x, W).sum())(X)
    np.testing.assert_allclose(rlx.grad(function)(X, W), theirs, 1e-5)
    batch = np.stack([X, 2 * X])
    mine = rlx.vmap(function, in_axes=(0, None))(batch, W)
    np.testing.assert_allclose(mine, [layer(x, W).sum() for x in batch], 1e-5)


def test_a_loop_of_known_length_has_a_gradient() -> None:
    def scanned(x: Any) -> Any:
        return jax.lax.scan(lambda c, t: (jnp.tanh(c * t + x), c), x, jnp.arange(5.0))[1].sum()

    function = rlx.from_stablehlo(made(scanned, X[0]).mlir_module_serialized)
    np.testing.assert_allclose(rlx.grad(function)(X[0]), jax.grad(scanned)(X[0]), 1e-5)


def test_symbolic_extents_are_those_of_the_arguments() -> None:
    function = rlx.from_stablehlo(with_open_rows().mlir_module_serialized)
    for rows in (1, 4):
        np.testing.assert_allclose(function(X[:rows], W), layer(X[:rows], W), 1e-5)
    graph = function.graph({"x": (rlx.Dim("rows", min=1, max=9), 3)})
    (found,) = rlx.compile(graph).run({"x": X, "w": W})
    np.testing.assert_allclose(found, layer(X, W), 1e-5)
    with pytest.raises(rlx.errors.InputError, match=r"x has open extents .axes 0"):
        function.graph()


def test_what_an_export_says_of_extents_is_checked() -> None:
    shape = export.symbolic_shape("2*n")
    exported = made(lambda x: x[: x.shape[0] // 2], jax.ShapeDtypeStruct(shape, np.float32))
    function = rlx.from_stablehlo(exported.mlir_module_serialized)
    np.testing.assert_array_equal(function(np.arange(6, dtype="f4")), [0, 1, 2])
    with pytest.raises(rlx.errors.InputError, match="Division had remainder 1"):
        function(np.arange(5, dtype="f4"))
    with pytest.raises(rlx.errors.UnsupportedError, match="do not decide"):
        function.graph({"x": (rlx.Dim("m", max=9),)})
    doubled = function.graph({"x": (2 * rlx.Dim("n", min=1, max=9),)})
    (found,) = rlx.compile(doubled).run({"x": np.arange(6, dtype="f4")})
    np.testing.assert_array_equal(found, [0, 1, 2])


@pytest.mark.parametrize("shape", [(5,), (2, 3), ()], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
@pytest.mark.parametrize("algorithm", ["RNG_THREE_FRY", "RNG_PHILOX"])
def test_bits_of_xlas_generators_are_xlas(algorithm: str, dtype: str, shape: Any) -> None:
    def draw(state: Any) -> Any:
        number = jax.lax.RandomAlgorithm[algorithm]
        return jax.lax.rng_bit_generator(state, shape, dtype, algorithm=number)

    state = np.array([7, 2**64 - 3], "uint64")
    with jax.enable_x64(True):
        found = rlx.from_stablehlo(made(draw, state).mlir_module_serialized)(state)
        for mine, theirs in zip(found, draw(state), strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)


def main_of(body: str, types: str = "tensor<2xf32>") -> str:
    return f"module {{\n func.func @main(%x: {types}) -> {types} {{\n {body} }} }}"


ERRORS = [
    ("module {", rlx.errors.FormatError, "no module of StableHLO"),
    (b"ML\xefR damaged", rlx.errors.FormatError, "bytecode"),
    (b"\x00\x01\xff", rlx.errors.FormatError, "neither text, nor bytecode"),
    ("module { func.func @a() { return } func.func @b() { return } }", rlx.errors.FormatError,
     "no function main, but a, b"),
    (7, rlx.errors.InputError, "given a int"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "error", "match"), ERRORS)
def test_damaged_programs_are_errors(source: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        rlx.from_stablehlo(source)


UNSUPPORTED = [
    ('%y = stablehlo.custom_call @foo(%x) : (tensor<2xf32>) -> tensor<2xf32> loc("m.py":7:1)\n '
     "return %y : tensor<2xf32>", "tensor<2xf32>", "a call of 'foo'(.|\n)*m.py:7"),
    ('%y = "stablehlo.cross-replica-sum"(%x) {replica_groups = dense<0> : tensor<1x1xi64>} : '
     '(tensor<2xf32>) -> tensor<2xf32> loc("m.py":8:1)\n return %y : tensor<2xf32>',
     "tensor<2xf32>", "stablehlo.cross-replica-sum has no rule(.|\n)*m.py:8"),
    ("return %x : tensor<2xi4>", "tensor<2xi4>", "elements of type i4"),
    ("return %x : tensor<*xf32>", "tensor<*xf32>", "of a known rank"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "types", "match"), UNSUPPORTED)
def test_what_has_no_rule_is_named_with_its_line(body: str, types: str, match: str) -> None:
    with pytest.raises((rlx.errors.NoRuleError, rlx.errors.UnsupportedError), match=match):
        rlx.from_stablehlo(main_of(body, types))(np.zeros(2, "f4"))


LIMITS = [
    (main_of("%y = func.call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>\n "
             "return %y : tensor<2xf32>"), {}, "nesting"),
    ("module " + "{" * 5000 + "}" * 5000, {}, "nesting"),
    (main_of("%c = stablehlo.constant dense<1.0> : tensor<90000x90000xf32>\n "
             "return %x : tensor<2xf32>"), {}, "elements"),
    (main_of("%c = stablehlo.iota dim = 0 : tensor<90000x90000xf32>\n "
             "return %x : tensor<2xf32>"), {}, "elements"),
    (main_of("return %x : tensor<2xf32>"), {"bytes": 10}, "bytes"),
    (main_of("%y = stablehlo.sine %x : tensor<2xf32>\n return %y : tensor<2xf32>"), {"nodes": 1},
     "nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "limits", "limit"), LIMITS)
def test_limits_bound_what_a_program_takes(text: str, limits: dict[str, int], limit: str) -> None:
    with pytest.raises(rlx.LimitError) as caught:
        rlx.from_stablehlo(text, limits=rlx.LoadLimits(**limits))(np.zeros(2, "f4"))
    assert caught.value.limit == limit


def test_arguments_of_other_types_are_errors() -> None:
    function = rlx.from_stablehlo(made().mlir_module_serialized)
    with pytest.raises(rlx.errors.ShapeError, match=r"x has shape \(4, 2\)"):
        function(X[:, :2], W)
    with pytest.raises(rlx.errors.DTypeError, match="x has dtype f64"):
        function(X.astype("f8"), W)
    with pytest.raises(rlx.errors.InputError, match="takes 2 arrays and is given 1"):
        function(X)


def test_names_of_a_file_are_no_code(tmp_path: Path) -> None:
    name = json.dumps(COMMAND).replace("\\n", "\\0A")
    text = main_of("%y = stablehlo.sine %x : tensor<2xf32>\n return %y : tensor<2xf32>")
    text = text.replace("%x: tensor<2xf32>", f"%x: tensor<2xf32> loc({name})")
    path = tmp_path / "model.stablehlo"
    path.write_text(text.replace("module {", f"module @{name} {{"))
    artifact = rlx.aot(path, tmp_path / "build", name="model")
    assert "constructor" not in Path(artifact.directory, "model.c").read_text()


def test_a_file_is_compiled_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "model.stablehlo"
    path.write_bytes(with_open_rows().mlir_module_serialized)
    command = ["compile", str(path), "--shape", "x=f32[rows<=9,3]", "-o", str(tmp_path / "build")]
    assert main(command) == 0
    assert "rows" in (tmp_path / "build" / "jit_layer.h").read_text()


def test_the_page_names_what_is_left_out() -> None:
    page = (Path(__file__).parents[2] / "docs" / "from_stablehlo.md").read_text()
    assert "stablehlo.reduce_window" in rule_names()
    for name in ("all_reduce", "rng", "uniform_quantize", "set_dimension_size"):
        assert f"stablehlo.{name}" not in rule_names()
        assert f"`{name}`" in page

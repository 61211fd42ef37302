"""The register tile: sums of outer products for any types of elements and sums."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.codegen.kernels.register_tile import RegisterTile, multiply_add
from rlx.codegen.llvm.jit import LlvmBackend
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.evaluate import numpy_dtype
from rlx.codegen.loops.expr import const, dot_bytes
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Binary, Fma, Kernel, Module, Prim
from rlx.codegen.loops.visit import all_expressions
from rlx.runtime.backend import Backend
from rlx.runtime.c_backend import CBackend
from rlx.target import detect_target

ROWS, COLUMNS, LANES, INNER = 3, 8, 4, 5
TYPES = [
    (Prim.F32, Prim.F32),
    (Prim.F64, Prim.F64),
    (Prim.F32, Prim.F64),
    (Prim.I8, Prim.I32),
    (Prim.I16, Prim.I32),
    (Prim.U8, Prim.I32),
]


WORDS = [(Prim.U32, Prim.I32), (Prim.I32, Prim.I32)]


def product(element: Prim, sums: Prim, *, words: bool = False, lanes: int = LANES) -> Kernel:
    """`y += a @ b`, in one tile; of words, the products of their bytes."""
    k = KernelBuilder("product")
    a, b = k.argument("a", element), k.argument("b", sums if words else element)
    y = k.argument("y", sums, writable=True)
    add = dot_bytes if words else None
    tile = RegisterTile.of(k, "tile", ROWS, COLUMNS, lanes, sums, add=add)
    tile.load(lambda i, j: k.load(y, i * COLUMNS + j, lanes))
    with k.loop("p", INNER) as p:
        tile.accumulate(
            lambda i: k.load(a, i * INNER + p), lambda j: k.load(b, p * COLUMNS + j, lanes)
        )
    tile.store(lambda i, j, total: k.store(y, i * COLUMNS + j, total))
    return k.build()


def arrays(element: Prim, sums: Prim) -> dict[str, NDArray[Any]]:
    """Small numbers, whose products every order of summation gets exactly."""
    random = np.random.default_rng(3)
    low = 0 if element is Prim.U8 else -9
    shapes = {"a": (ROWS, INNER), "b": (INNER, COLUMNS)}
    found = {
        name: random.integers(low, 120, shape).astype(numpy_dtype(element))
        for name, shape in shapes.items()
    }
    y = random.integers(-9, 9, (ROWS, COLUMNS)).astype(numpy_dtype(sums))
    return {name: array.reshape(-1) for name, array in {**found, "y": y}.items()}


def expected(given: dict[str, NDArray[Any]]) -> NDArray[Any]:
    wide = given["y"].dtype
    a, b = given["a"].reshape(ROWS, INNER), given["b"].reshape(INNER, COLUMNS)
    sums: NDArray[Any] = given["y"].reshape(ROWS, COLUMNS) + a.astype(wide) @ b.astype(wide)
    return sums.reshape(-1)


@pytest.mark.parametrize(("element", "sums"), TYPES, ids=str)
def test_a_tile_adds_products_to_what_it_was_loaded_with(element: Prim, sums: Prim) -> None:
    given = arrays(element, sums)
    wanted = expected(given)
    run_kernel(product(element, sums), given, {})
    np.testing.assert_array_equal(given["y"], wanted)


@pytest.mark.parametrize("backend", [CBackend(), LlvmBackend()], ids=lambda b: b.name)
def test_both_back_ends_agree_with_the_interpreter(backend: Backend) -> None:
    kernels = [product(*types) for types in TYPES]
    named = [replace(kernel, name=f"product_{i}") for i, kernel in enumerate(kernels)]
    native = backend.load(Module("tiles", (), (), tuple(named)), detect_target())
    for kernel, types in zip(named, TYPES, strict=True):
        given = arrays(*types)
        wanted = expected(given)
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(native.address(kernel.name))
        function(*(given[name].ctypes.data for name in ("a", "b", "y")))
        np.testing.assert_array_equal(given["y"], wanted, err_msg=str(types))


def words_of(prim: Prim) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Random words, and the sums of the products of their bytes."""
    random, byte = np.random.default_rng(4), np.uint8 if prim is Prim.U32 else np.int8
    a = random.integers(-128, 128, (ROWS, INNER, 4)).astype(np.int8).view(byte)
    b = random.integers(-128, 128, (INNER, COLUMNS, 4)).astype(np.int8)
    sums = np.einsum("ipt,pjt->ij", a.astype(np.int32), b.astype(np.int32)) + 5
    words = {"a": a.reshape(-1).view(numpy_dtype(prim)), "b": b.reshape(-1).view(np.int32)}
    return {**words, "y": np.full(ROWS * COLUMNS, 5, np.int32)}, sums.reshape(-1)


@pytest.mark.parametrize(("element", "sums"), WORDS, ids=str)
def test_a_tile_of_words_sums_products_of_bytes(element: Prim, sums: Prim) -> None:
    given, wanted = words_of(element)
    run_kernel(product(element, sums, words=True), given, {})
    np.testing.assert_array_equal(given["y"], wanted)


@pytest.mark.parametrize("backend", [CBackend(), LlvmBackend()], ids=lambda b: b.name)
def test_words_are_the_same_integers_on_both_back_ends(backend: Backend) -> None:
    cases = [(prims, lanes) for prims in WORDS for lanes in (4, 8)]
    named = [
        replace(product(*prims, words=True, lanes=lanes), name=f"words_{number}")
        for number, (prims, lanes) in enumerate(cases)
    ]
    native = backend.load(Module("words", (), (), tuple(named)), detect_target())
    for kernel, (prims, lanes) in zip(named, cases, strict=True):
        given, wanted = words_of(prims[0])
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(native.address(kernel.name))
        function(*(given[name].ctypes.data for name in ("a", "b", "y")))
        np.testing.assert_array_equal(given["y"], wanted, err_msg=f"{prims} {lanes}")


def test_a_zeroed_tile_is_zero() -> None:
    k = KernelBuilder("zeros")
    y = k.argument("y", Prim.I32, writable=True)
    tile = RegisterTile.of(k, "tile", ROWS, COLUMNS, LANES, Prim.I32)
    tile.zero()
    tile.store(lambda i, j, total: k.store(y, i * COLUMNS + j, total))
    stored = np.full(ROWS * COLUMNS, 7, np.int32)
    run_kernel(k.build(), {"y": stored}, {})
    assert not stored.any()


def test_floats_are_rounded_once_and_integers_are_widened_first() -> None:
    nodes = {type(each) for each in all_expressions(product(Prim.F32, Prim.F32).body)}
    assert Fma in nodes
    hundred, zero = const(100, Prim.I8), const(0, Prim.I32)
    total = multiply_add(hundred, hundred, zero)
    assert total.type.prim is Prim.I32
    assert isinstance(total.node, Binary)

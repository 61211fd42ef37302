"""Facts about this machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from rlx.target import detect_target, named_target


def test_this_machine_has_cores_and_caches() -> None:
    target = detect_target()
    assert target.cores >= 1
    assert 0 < target.l1 <= target.l2 <= target.l3


def test_vector_width_follows_the_features() -> None:
    target = replace(detect_target(), architecture="x86_64", features=frozenset({"sse2"}))
    assert (target.vector_bytes, target.vector_registers) == (16, 16)
    avx = replace(target, features=frozenset({"sse2", "avx"}))
    assert (avx.vector_bytes, avx.lanes(4)) == (32, 8)
    wide = replace(target, features=frozenset({"avx", "avx512f"}))
    assert (wide.vector_bytes, wide.vector_registers, wide.lanes(8)) == (64, 32, 8)


def test_importing_the_runtime_loads_no_llvm() -> None:
    program = "import rlx.runtime.compile, sys; print('llvmlite' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout == "False\n", done.stderr


def test_targets_without_vectors_have_one_lane_and_natural_alignment() -> None:
    for name in ("riscv64", "wasm32", "cortex-m3", "arm"):
        target = named_target(name)
        assert (target.vector_bytes, target.lanes(4), target.alignment) == (0, 1, 8), name
    assert named_target("wasm32-simd128").lanes(4) == 4
    for name, width in (("aarch64-i8mm", 16), ("aarch64-sve256", 32), ("aarch64-sve512", 64)):
        target = named_target(name)
        assert (target.vector_bytes, target.vector_registers) == (width, 32), name
        assert target.multiplies_byte_squares == (name == "aarch64-i8mm"), name
    assert named_target("portable").alignment == 64


def test_a_target_says_of_which_floats_it_fuses_multiply_adds() -> None:
    fused = {
        name: [size for size in (4, 8) if named_target(name).multiplies_and_adds(size)]
        for name in ("portable", "x86-64-v3", "aarch64", "wasm32", "cortex-m3", "cortex-m4")
    }
    assert fused == {
        "portable": [], "x86-64-v3": [4, 8], "aarch64": [4, 8],
        "wasm32": [], "cortex-m3": [], "cortex-m4": [4],
    }  # fmt: skip


def test_a_target_says_whether_it_sums_products_of_four_bytes() -> None:
    found = {
        name: (named_target(name).dots_bytes, named_target(name).dots_unsigned_bytes)
        for name in ("x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni", "aarch64",
                     "aarch64-dotprod", "aarch64-i8mm", "cortex-m4")
    }  # fmt: skip
    assert found == {
        "x86-64": (False, False), "x86-64-v3": (True, True), "x86-64-v4": (True, True),
        "x86-64-v4-vnni": (True, True), "aarch64": (False, False),
        "aarch64-dotprod": (True, False), "aarch64-i8mm": (True, False),
        "cortex-m4": (False, False),
    }  # fmt: skip
    narrow = replace(detect_target(), architecture="x86_64", features=frozenset({"avx", "avxvnni"}))
    assert narrow.dots_unsigned_bytes


def test_a_target_says_whether_it_multiplies_pairs_of_bf16() -> None:
    names = ("x86-64-v4", "x86-64-v4-vnni", "x86-64-v4-bf16", "aarch64-dotprod", "aarch64-bf16")
    found = [name for name in names if named_target(name).dots_bf16]
    assert found == ["x86-64-v4-bf16", "aarch64-bf16"]
    assert all(named_target(name).dots_bytes for name in found)


def test_pairs_of_bf16_are_slow_on_intels_cores() -> None:
    generic = named_target("x86-64-v4-bf16")
    vendors = ("generic", "AuthenticAMD", "GenuineIntel")
    slow = [replace(generic, vendor=vendor).has_slow_bf16_dots for vendor in vendors]
    assert slow == [False, False, True]


def test_microcontrollers_are_small() -> None:
    assert named_target("cortex-m4").is_small
    assert not named_target("riscv64").is_small

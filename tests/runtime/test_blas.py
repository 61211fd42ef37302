"""Finding BLAS, its core type and its threads."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlx.errors import ToolchainError
from rlx.runtime import blas_cores
from rlx.runtime.blas import find_blas, is_blas
from rlx.runtime.blas_cores import DETECTED, core_types, fastest_core_type, gflops
from rlx.runtime.compile import choose_backend
from rlx.runtime.native import function_at, pointer_to
from rlx.runtime.peaks import measure_peaks
from rlx.target import Target, detect_target

AVX512 = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"})


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy_openblas32")
    monkeypatch.delenv("RLX_BLAS", raising=False)


@pytest.mark.usefixtures("embedded")
def test_a_product_through_cblas_is_the_product() -> None:
    a = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    b = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32)
    c = np.zeros((5, 3), np.float32)
    floats = "float *"
    type = f"void (*)(int, int, int, int, int, int, float, {floats}, int, {floats}, int, float, "
    sgemm = function_at(find_blas(detect_target()).address("cblas_sgemm"), f"{type}{floats}, int)")
    pointers = [pointer_to(x.ctypes.data, floats) for x in (a, b, c)]
    sgemm(101, 111, 111, 5, 3, 7, 1.0, pointers[0], 7, pointers[1], 3, 0.0, pointers[2], 3)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.usefixtures("embedded")
def test_lapack_is_there_and_unknown_functions_are_not() -> None:
    blas = find_blas(detect_target())
    assert all(blas.has(name) for name in ("sgesv_", "dgetrf_", "spotrf_", "cblas_dgemm"))
    assert not blas.has("cblas_nonsense")
    with pytest.raises(ToolchainError, match="cblas_nonsense"):
        blas.address("cblas_nonsense")


@pytest.mark.usefixtures("embedded")
def test_openblas_is_left_with_one_thread_and_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    blas = find_blas(detect_target())
    threads = function_at(blas.address("openblas_get_num_threads"), "int (*)(void)")()
    assert threads == 1
    assert dict(os.environ) == before


def gain_of_whole_vectors(target: Target) -> float:
    """Return how much faster multiply-adds of 512 bits are than those of 256, under load."""
    narrow = replace(target, features=frozenset(f for f in target.features if "avx512" not in f))
    backend = choose_backend("auto")
    peaks = [measure_peaks(backend, each, time.thread_time).flops for each in (target, narrow)]
    return peaks[0] / peaks[1]


@pytest.mark.usefixtures("embedded")
def test_the_kernels_that_run_are_those_for_the_vectors_of_the_core() -> None:
    """Measured, not read off names; in turns with kernels of half the width, under any load.

    Cores whose units are half as wide (Zen 4) gain nothing from whole vectors, ours neither.
    """
    target = detect_target()
    if not target.has("avx512f") or "OPENBLAS_CORETYPE" in os.environ:
        pytest.skip("only AVX-512 has kernels of half its width, and what the user names holds")
    library, core = find_blas(target).library.path, find_blas(target).forced or DETECTED
    least = 1.2 if gain_of_whole_vectors(target) > 1.5 else 0.9
    measured = []
    for _ in range(8):  # until both were measured at the same load
        gflops.cache_clear()
        measured.append(gflops(library, core) / gflops(library, "Haswell"))
        if measured[-1] > least:
            return
    raise AssertionError(f"times the speed of AVX2 kernels: {measured}")


@pytest.mark.usefixtures("embedded")
@pytest.mark.timed
def test_a_small_product_reaches_a_part_of_the_peak_even_under_load() -> None:
    """Seven tenths alone; two tests that share a core leave each other half."""
    library = find_blas(detect_target()).library.path
    core = find_blas(detect_target()).forced or os.environ.get("OPENBLAS_CORETYPE", DETECTED)
    measured = []
    for _ in range(8):
        gflops.cache_clear()
        peak = measure_peaks(choose_backend("auto"), detect_target()).flops / 1e9
        measured.append(gflops(library, core) / peak)
        if measured[-1] > 0.25:
            return
    raise AssertionError(f"shares of the peak: {measured}")


@pytest.mark.usefixtures("embedded")
def test_the_fastest_kernels_are_found_by_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    target = detect_target()
    if not target.has("avx2") or not target.has("fma"):
        pytest.skip("kernels differ less here")
    library = find_blas(target).library.path
    candidates = ("PRESCOTT", "HASWELL", "NEHALEM")
    assert fastest_core_type(library, target, candidates) == "HASWELL"
    monkeypatch.setattr(blas_cores, "gflops", lambda *_: 1 / 0)
    assert fastest_core_type(library, target, candidates) == "HASWELL"


def test_kernels_that_cannot_run_are_not_chosen(tmp_path: Path) -> None:
    assert gflops(tmp_path / "missing.so", "HASWELL") == 0.0


def test_amd_with_avx512_is_put_to_trial() -> None:
    amd = replace(detect_target(), vendor="AuthenticAMD", features=AVX512)
    assert core_types(amd) == ("SKYLAKEX", DETECTED, "HASWELL")
    newer = replace(amd, features=AVX512 | {"avx512bf16"})
    assert core_types(newer) == ("COOPERLAKE", "SKYLAKEX", DETECTED, "HASWELL")
    assert core_types(replace(amd, features=frozenset({"avx2"}))) == ()
    assert core_types(replace(amd, vendor="GenuineIntel")) == ()


@pytest.mark.usefixtures("embedded")
def test_a_cpu_unknown_to_openblas_gets_the_fastest_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    speeds = {"SKYLAKEX": 2.0, DETECTED: 1.0, "HASWELL": 1.0}
    monkeypatch.setattr(blas_cores, "gflops", lambda _, core: speeds[core])
    amd = replace(detect_target(), vendor="AuthenticAMD", features=AVX512)
    assert find_blas(amd).forced == "SKYLAKEX"
    monkeypatch.setenv("OPENBLAS_CORETYPE", "HASWELL")
    assert find_blas(replace(amd, cpu="another")).forced == DETECTED


def test_a_wrong_rlx_blas_is_blamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLX_BLAS", str(tmp_path / "missing.so"))
    with pytest.raises(ToolchainError, match=r"RLX_BLAS names .*missing\.so"):
        find_blas(detect_target())


def test_a_library_that_is_no_library_is_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "libfake.so"
    fake.write_text("not a library")
    monkeypatch.setenv("RLX_BLAS", str(fake))
    with pytest.raises(ToolchainError, match="cannot load"):
        find_blas(detect_target())


def test_blas_names_are_distinguished_from_other_externals() -> None:
    assert [is_blas(name) for name in ("cblas_sgemm", "sgesv_", "sched_yield")] == [
        True,
        True,
        False,
    ]

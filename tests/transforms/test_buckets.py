"""Buckets: programs shared by a range of sizes, with the results of the exact size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError

BACKENDS = ("c", "llvm", "reference")


def rows(n: int, width: int = 3) -> Any:
    return np.random.default_rng(n).standard_normal((n, width), np.float32)


def loss(w: Any, x: Any, y: Any) -> Any:
    return rnp.mean((rnp.tanh(x @ w) - y) ** 2)


def at_sizes(backend: str = "auto") -> Any:
    n = rlx.Buckets("n", (4, 16, 64))
    step = rlx.value_and_grad(loss)
    return rlx.jit(step, buckets={"x": {0: n}, "y": {0: n}}, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_size_has_the_result_of_its_own_program(backend: str) -> None:
    f, plain = at_sizes(backend), rlx.jit(rlx.value_and_grad(loss), backend="reference")
    w = rows(3, 2)
    for n in (1, 3, 4, 5, 16, 17, 64):
        x, y = rows(n), rows(n, 2)
        np.testing.assert_allclose(f(w, x, y)[0], plain(w, x, y)[0], rtol=1e-5)
        np.testing.assert_allclose(f(w, x, y)[1], plain(w, x, y)[1], rtol=1e-4, atol=1e-6)


def test_a_program_is_compiled_for_each_bucket_and_no_more() -> None:
    f, w = at_sizes(), rows(3, 2)
    for n in range(1, 17):
        f(w, rows(n), rows(n, 2))
    assert f.cache_info().compiled == 2


def test_without_buckets_every_size_is_compiled() -> None:
    f = rlx.jit(lambda x: x + 1, backend="reference")
    for n in (1, 2, 3, 2, 1):
        f(rows(n))
    assert f.cache_info().compiled == f.cache_info().kept == 3


def test_no_more_programs_are_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.transforms.jit._ENTRIES_KEPT", 4)
    f = rlx.jit(lambda x: x + 1, backend="reference")
    for n in range(1, 11):
        f(rows(n))
    f(rows(10))
    assert (f.cache_info().compiled, f.cache_info().kept) == (10, 4)
    f(rows(1))  # forgotten: compiled again
    assert f.cache_info().compiled == 11


def test_leaves_of_a_tree_and_keywords_have_their_argument_s_buckets() -> None:
    n = rlx.Buckets.powers_of_two("n", max=8)
    f = rlx.jit(lambda batch, *, scale: batch["a"] * scale + batch["b"],
                buckets={"batch": {0: n}, "scale": {-2: n}}, backend="reference")  # fmt: skip
    for size in (5, 6, 8):
        batch = {"a": rows(size), "b": rows(size)}
        np.testing.assert_allclose(f(batch, scale=rows(size)), batch["a"] ** 2 + batch["b"])
    assert f.cache_info().compiled == 1


def test_powers_of_two_reach_the_largest_size() -> None:
    assert rlx.Buckets.powers_of_two("n", min=16, max=100).sizes == (16, 32, 64, 128)


def test_extents_that_share_buckets_must_be_equal() -> None:
    for n, m in ((7, 6), (3, 5)):  # in one bucket, and in two
        with pytest.raises(InputError, match=f"'y' has extent {m} and 'x' has {n}"):
            at_sizes()(rows(3, 2), rows(n), rows(m, 2))


@pytest.mark.parametrize(
    ("buckets", "message"),
    [
        ({"x": {0: rlx.Buckets("n", (4,))}}, r"extent 5, above the largest bucket of 'n': 4"),
        ({"z": {0: rlx.Buckets("n", (8,))}}, r"buckets name 'z'; the arguments are 'x'"),
        ({"x": {2: rlx.Buckets("n", (8,))}}, r"shape \(5, 3\), without axis 2"),
    ],
)
def test_a_call_that_fits_no_bucket_is_refused(buckets: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rlx.jit(lambda x: x + 1, buckets=buckets)(rows(5))


@pytest.mark.parametrize("sizes", [(), (0, 4), (4, 4), (8, 4), (-1,), (4.5,), (4, "a"), "n"])
def test_sizes_of_buckets_are_integers_that_rise(sizes: Any) -> None:
    with pytest.raises(InputError, match="must be positive integers that rise"):
        rlx.Buckets("n", sizes)


def test_what_is_no_table_of_buckets_is_refused() -> None:
    with pytest.raises(InputError, match="they map axes to"):
        rlx.jit(lambda x: x, buckets={"x": (4, 8)})  # type: ignore[dict-item]


def test_a_cleared_cache_compiles_again() -> None:
    f = rlx.jit(lambda x: x + 1, backend="reference")
    f(rows(2))
    f.clear_cache()
    assert f.cache_info().kept == 0
    np.testing.assert_array_equal(f(rows(2)), rows(2) + 1)
    assert f.cache_info().compiled == 2

"""Programs over ranks, with threads for ranks: against the same computation on whole arrays."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, Sharded, shard_map, simulate
from rlx.errors import CommunicationError, InputError, ShapeError
from rlx.ir.reference.collective import GROUPS
from tests.distributed import programs

X = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


def on_ranks(fun: Any, in_specs: Any, out_specs: Any, *args: Any, ranks: int = 4) -> list[Any]:
    def program() -> Any:
        mesh = Mesh({"ranks": ranks})
        return programs.whole(shard_map(fun, mesh, in_specs, out_specs)(*args))

    return simulate(program, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_mean_over_ranks_is_that_of_the_whole_batch(ranks: int) -> None:
    def loss(w: Any, x: Any) -> Any:
        return rnp.mean((x @ w) ** 2)

    def mean(w: Any, x: Any) -> Any:
        return rlx.distributed.pmean(loss(w, x), "ranks")

    results = on_ranks(rlx.grad(mean), (P(), P("ranks")), P(), W, X, ranks=ranks)
    for (gradient,) in results:
        np.testing.assert_allclose(gradient, rlx.grad(loss)(W, X), rtol=1e-5, atol=1e-6)


def test_sums_are_those_of_vmap_over_the_same_axis() -> None:
    def centered(x: Any) -> Any:
        return x - rlx.distributed.pmean(x, "ranks") + rlx.distributed.axis_index("ranks")

    (result,) = on_ranks(lambda x: centered(x[0])[None], P("ranks"), P("ranks"), X[:4])[0]
    np.testing.assert_allclose(result, rlx.vmap(centered, axis_name="ranks")(X[:4]), rtol=1e-6)


def test_a_product_of_split_matrices_is_the_product() -> None:
    results = simulate(lambda: programs.grid("auto"), 4)
    a, b = programs.normal(4, 8), programs.normal(8, 3)
    for (result,) in results:
        np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-5)


def test_a_halo_has_the_gradient_of_the_whole_ring() -> None:
    def total(u: Any) -> Any:
        return rnp.sum((u - rnp.roll(u, 1)) ** 2) * rnp.max(u)

    results = simulate(lambda: programs.through_collectives("auto"), 4)
    expected = rlx.grad(total)(programs.normal(16).astype(np.float64))
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-4, atol=1e-4)


def test_results_that_are_split_come_back_as_arguments() -> None:
    def program() -> Any:
        mesh = Mesh({"ranks": 2})
        double = shard_map(lambda x: 2 * x, mesh, P("ranks"), P("ranks"))
        twice = double(double(X))
        assert isinstance(twice, Sharded)
        assert twice.shape == X.shape
        assert twice.local.shape == (4, 5)
        return twice.gather()

    np.testing.assert_array_equal(simulate(program, 2)[1], 4 * X)


def psum(x: Any) -> Any:
    return rlx.distributed.psum(x, "ranks")


def factor_of_rank() -> Any:
    mesh = Mesh({"ranks": 2})
    factor = 2.0 + mesh.world.rank
    return shard_map(lambda x: factor * x, mesh, P("ranks"), P("ranks"))(X)


def rows_of_rank() -> Any:
    mesh = Mesh({"ranks": 2})
    return shard_map(psum, mesh, P(), P())(X[: 4 + 2 * mesh.world.rank])


def inside_jit() -> Any:
    mapped = shard_map(lambda x: x, Mesh({"ranks": 1}), P(), P())
    return rlx.jit(lambda x: mapped(x))(X)


def parts_of_another_mesh() -> Any:
    mesh, turned = Mesh({"a": 2, "b": 2}), Mesh({"b": 2, "a": 2})
    part = shard_map(lambda x: x, mesh, P("a"), P("a"))(X)
    return shard_map(lambda x: x, turned, P("a"), P("a"))(part)


def one_ends_early() -> None:
    mesh = Mesh({"ranks": 2})
    total = shard_map(psum, mesh, P(), P())
    total(X)
    if mesh.world.rank == 0:
        total(X)


def different_functions() -> None:
    mesh = Mesh({"ranks": 2})
    folds = (psum, lambda x: rlx.distributed.pmax(x, "ranks"))
    functions = [shard_map(fold, mesh, P(), P()) for fold in folds]
    for function in functions:
        function(X)
    functions[mesh.world.rank](X)


def one_catches_its_error() -> None:
    mesh = Mesh({"ranks": 2})
    total = shard_map(psum, mesh, P(), P())
    total(X)
    with contextlib.suppress(InputError):
        total(X) if mesh.world.rank == 0 else total(X, X)


def donating(number: int) -> Callable[[], Any]:
    def program() -> Any:
        return shard_map(lambda x: x, Mesh({"ranks": 1}), P(), P(), donate_argnums=number)

    return lambda: simulate(program, 1)


ROWS = P("ranks")
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "uneven shards": (lambda: on_ranks(lambda x: x, ROWS, ROWS, X, ranks=3), ShapeError,
                      "extent 8 at axis 0, which 3 ranks along 'ranks'"),
    "a mesh of another size": (lambda: simulate(lambda: Mesh({"ranks": 3}), 2), InputError,
                               "has 3 members, and there are 2 ranks"),
    "ranks with different programs": (lambda: simulate(factor_of_rank, 2), CommunicationError,
                                      "runs another program for"),
    "ranks with different shapes": (lambda: simulate(rows_of_rank, 2), CommunicationError,
                                    "runs another program for"),
    "a wrong number of specs": (lambda: on_ranks(lambda x, _: x, ROWS, ROWS, X, X), InputError,
                                "is given 2 arguments, and in_specs has 1"),
    "jit around a mapped function": (lambda: simulate(inside_jit, 1), InputError,
                                     "is a traced array: what shard_map returns"),
    "an axis of the mesh that splits two": (lambda: P("ranks", None, "ranks"), InputError,
                                            "names 'ranks' twice"),
    "a result with fewer axes than its spec": (
        lambda: on_ranks(lambda x: x, ROWS, P("ranks", None, None), X), ShapeError,
        r"a result of .* has shape \(2, 5\)"),
    "parts of another mesh": (lambda: simulate(parts_of_another_mesh, 4), InputError,
                              r"split over the mesh \{'a': 2, 'b': 2\}"),
    **{f"a donated argument {n}": (
        donating(n), InputError, f"names argument {n}, and the call has 1") for n in (1, -2)},
    "a masked array": (
        lambda: on_ranks(lambda x: x, ROWS, ROWS, np.ma.masked_array(X, X > 0)), InputError, "mask",
    ),
    "a rank that ends early while others wait": (
        lambda: simulate(one_ends_early, 2), CommunicationError,
        "rank 1 has ended, and rank 0 waits for it"),
    "ranks that call different functions": (
        lambda: simulate(different_functions, 2), CommunicationError, "in another exchange"),
    "an error that one rank catches while the other waits": (
        lambda: simulate(one_catches_its_error, 2), CommunicationError, "in another exchange"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_an_error_on_all_ranks(case: str) -> None:
    run, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        run()


def test_an_error_on_one_rank_ends_all_with_its_rank() -> None:
    def program() -> None:
        mesh = Mesh({"ranks": 3})
        if mesh.world.rank == 1:
            raise ValueError("no luck")
        shard_map(psum, mesh, P(), P())(X)

    with pytest.raises(ValueError, match="no luck") as raised:
        simulate(program, 3)
    assert raised.value.__notes__ == ["raised on rank 1 of 3"]


def test_the_error_of_one_ranks_trace_reaches_the_others() -> None:
    def program() -> str:
        mesh = Mesh({"ranks": 2})

        def fun(x: Any) -> Any:
            if mesh.world.rank == 1:
                raise ValueError("no luck")
            return x

        with pytest.raises((ValueError, CommunicationError)) as raised:
            shard_map(fun, mesh, P(), P())(X)
        return f"{raised.type.__name__}: {raised.value}"

    first, second = simulate(program, 2)
    assert first.startswith("CommunicationError: rank 1 could not run fun: ValueError: no luck")
    assert second == "ValueError: no luck"


def test_numbers_are_as_weak_as_in_jit() -> None:
    for (result,) in on_ranks(lambda a, x: a * x, (P(), P()), P(), 0.5, X):
        assert result.dtype == np.float32


def test_groups_of_a_simulation_are_forgotten() -> None:
    before = len(GROUPS)
    simulate(lambda: Mesh({"a": 2, "b": 2}).extents, 4)
    assert len(GROUPS) == before


def test_a_call_looks_at_the_structure_of_its_arguments_once_and_takes_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    module: Any = sys.modules["rlx.distributed.shard_map"]
    joiner_of = module.joiner

    def counted(tree: Any) -> Any:
        seen.append(tree)
        return joiner_of(tree)

    monkeypatch.setattr(module, "joiner", counted)

    def program() -> Any:
        double = shard_map(lambda t: rlx.tree_map(lambda x: 2 * x, t), Mesh({"a": 2}), P(), P())
        trees = ({"x": X}, X, {"x": X, "y": W}, {"y": W}, {"x": X})
        for tree in (*trees, *trees):
            doubled = double(tree)
            assert rlx.tree_structure(doubled) == rlx.tree_structure(tree)
            for result, x in zip(*map(rlx.tree_leaves, (doubled, tree)), strict=True):
                np.testing.assert_array_equal(result, 2 * x)

    simulate(program, 2)
    assert len(seen) == 2 * 2 * 4  # on both ranks, of arguments and results, four structures


def test_a_spec_of_none_splits_nothing() -> None:
    for (result,) in on_ranks(lambda x: x, P(None), P(None, None), X):
        assert isinstance(result, np.ndarray)
        assert result.shape == X.shape


def test_a_rank_may_end_before_others_that_exchange_nothing_more() -> None:
    def program() -> float:
        mesh = Mesh({"ranks": 2})
        total = shard_map(psum, mesh, P(), P())(X)
        if mesh.world.rank == 0:
            time.sleep(0.05)
        return float(total[0, 0])

    assert len(set(simulate(program, 2))) == 1


def test_an_error_of_all_ranks_can_be_caught() -> None:
    def program() -> Any:
        mesh = Mesh({"ranks": 2})
        total = shard_map(psum, mesh, P("ranks"), P())
        with pytest.raises(ShapeError, match="do not divide"):
            total(X[:5])
        return total(X)

    np.testing.assert_allclose(simulate(program, 2)[0], X[:4] + X[4:], rtol=1e-6)

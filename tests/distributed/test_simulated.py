"""Programs over ranks, with threads for ranks: against the same computation on whole arrays."""

from __future__ import annotations

import contextlib
import sys
import time
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


def test_uneven_shards_are_an_error_with_both_numbers() -> None:
    with pytest.raises(ShapeError, match="extent 8 at axis 0, which 3 ranks along 'ranks'"):
        on_ranks(lambda x: x, P("ranks"), P("ranks"), X, ranks=3)


def test_a_mesh_of_another_size_is_an_error() -> None:
    with pytest.raises(InputError, match="has 3 members, and there are 2 ranks"):
        simulate(lambda: Mesh({"ranks": 3}), 2)


def test_ranks_with_different_programs_are_an_error() -> None:
    def program() -> Any:
        mesh = Mesh({"ranks": 2})
        factor = 2.0 + mesh.world.rank
        return shard_map(lambda x: factor * x, mesh, P("ranks"), P("ranks"))(X)

    with pytest.raises(CommunicationError, match="runs another program for"):
        simulate(program, 2)


def test_ranks_with_different_shapes_are_an_error() -> None:
    def program() -> Any:
        mesh = Mesh({"ranks": 2})
        rows = X[: 4 + 2 * mesh.world.rank]
        return shard_map(lambda x: rlx.distributed.psum(x, "ranks"), mesh, P(), P())(rows)

    with pytest.raises(CommunicationError, match="runs another program for"):
        simulate(program, 2)


def test_an_error_on_one_rank_ends_all_with_its_rank() -> None:
    def program() -> None:
        mesh = Mesh({"ranks": 3})
        if mesh.world.rank == 1:
            raise ValueError("no luck")
        shard_map(lambda x: rlx.distributed.psum(x, "ranks"), mesh, P(), P())(X)

    with pytest.raises(ValueError, match="no luck") as raised:
        simulate(program, 3)
    assert raised.value.__notes__ == ["raised on rank 1 of 3"]


def test_a_wrong_number_of_specs_is_an_error() -> None:
    with pytest.raises(InputError, match="is given 2 arguments, and in_specs has 1"):
        on_ranks(lambda x, _: x, P("ranks"), P("ranks"), X, X)


def test_jit_around_a_mapped_function_is_an_error() -> None:
    def program() -> Any:
        mapped = shard_map(lambda x: x, Mesh({"ranks": 1}), P(), P())
        return rlx.jit(lambda x: mapped(x))(X)

    with pytest.raises(InputError, match="is a traced array: what shard_map returns"):
        simulate(program, 1)


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


def test_one_axis_of_the_mesh_splits_one_axis_of_an_array() -> None:
    with pytest.raises(InputError, match="names 'ranks' twice"):
        P("ranks", None, "ranks")


def test_a_result_with_fewer_axes_than_its_spec_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"a result of .* has shape \(2, 5\)"):
        on_ranks(lambda x: x, P("ranks"), P("ranks", None, None), X)


def test_parts_of_another_mesh_are_an_error() -> None:
    def program() -> Any:
        mesh, turned = Mesh({"a": 2, "b": 2}), Mesh({"b": 2, "a": 2})
        part = shard_map(lambda x: x, mesh, P("a"), P("a"))(X)
        return shard_map(lambda x: x, turned, P("a"), P("a"))(part)

    with pytest.raises(InputError, match=r"split over the mesh \{'a': 2, 'b': 2\}"):
        simulate(program, 4)


def test_numbers_are_as_weak_as_in_jit() -> None:
    for (result,) in on_ranks(lambda a, x: a * x, (P(), P()), P(), 0.5, X):
        assert result.dtype == np.float32


@pytest.mark.parametrize("number", [1, -2])
def test_a_donated_argument_must_be_there(number: int) -> None:
    def program() -> Any:
        return shard_map(lambda x: x, Mesh({"ranks": 1}), P(), P(), donate_argnums=number)

    with pytest.raises(InputError, match=f"names argument {number}, and the call has 1"):
        simulate(program, 1)


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


def test_a_masked_array_is_an_error() -> None:
    masked = np.ma.masked_array(X, X > 0)
    with pytest.raises(InputError, match="mask"):
        on_ranks(lambda x: x, P("ranks"), P("ranks"), masked)


def test_a_rank_that_ends_early_is_missed_by_those_that_wait() -> None:
    def program() -> None:
        mesh = Mesh({"ranks": 2})
        total = shard_map(lambda x: rlx.distributed.psum(x, "ranks"), mesh, P(), P())
        total(X)
        if mesh.world.rank == 0:
            total(X)

    with pytest.raises(CommunicationError, match="rank 1 has ended, and rank 0 waits for it"):
        simulate(program, 2)


def test_a_rank_may_end_before_others_that_exchange_nothing_more() -> None:
    def program() -> float:
        mesh = Mesh({"ranks": 2})
        total = shard_map(lambda x: rlx.distributed.psum(x, "ranks"), mesh, P(), P())(X)
        if mesh.world.rank == 0:
            time.sleep(0.05)
        return float(total[0, 0])

    assert len(set(simulate(program, 2))) == 1


def test_ranks_that_call_different_functions_are_an_error_instead_of_a_hang() -> None:
    def program() -> None:
        mesh = Mesh({"ranks": 2})
        functions = [
            shard_map(fold, mesh, P(), P())
            for fold in (
                lambda x: rlx.distributed.psum(x, "ranks"),
                lambda x: rlx.distributed.pmax(x, "ranks"),
            )
        ]
        for function in functions:
            function(X)
        functions[mesh.world.rank](X)

    with pytest.raises(CommunicationError, match="in another exchange"):
        simulate(program, 2)


def test_an_error_that_is_caught_on_one_rank_does_not_leave_the_other_waiting() -> None:
    def program() -> None:
        mesh = Mesh({"ranks": 2})
        total = shard_map(lambda x: rlx.distributed.psum(x, "ranks"), mesh, P(), P())
        total(X)
        with contextlib.suppress(InputError):
            total(X) if mesh.world.rank == 0 else total(X, X)

    with pytest.raises(CommunicationError, match="in another exchange"):
        simulate(program, 2)


def test_an_error_of_all_ranks_can_be_caught() -> None:
    def program() -> Any:
        mesh = Mesh({"ranks": 2})
        total = shard_map(lambda x: rlx.distributed.psum(x, "ranks"), mesh, P("ranks"), P())
        with pytest.raises(ShapeError, match="do not divide"):
            total(X[:5])
        return total(X)

    np.testing.assert_allclose(simulate(program, 2)[0], X[:4] + X[4:], rtol=1e-6)

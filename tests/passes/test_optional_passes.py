"""Passes that may be left out: by name, one by one, and what remains computes the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.passes.optional_passes import OPTIONAL_PASSES, pass_names, without_passes
from rlx.passes.pipeline import pipeline
from rlx.runtime.c_backend import CBackend
from rlx.runtime.cache import Cache, cache_directory
from rlx.runtime.programs import Lapack, ProgramCache
from tests.passes.models import CLAIMED, TARGET
from tests.properties.typed_graphs import typed_feeds

REQUIRED = {
    "inline-calls", "decompose", "legalize", "attach-codebooks", "pack-blocks", "order-updates",
    "bufferize-loops", "copy-outputs",
}  # fmt: skip


def chain() -> Graph:
    """Four elementwise nodes."""
    g = Graph("chain")
    x = g.input("x", (8, 8))
    g.set_outputs([g.relu(g.exp(x) + x) * 2.0])
    return g


def mixed() -> Graph:
    """Products, a scan of them, a convolution, a long sort, an update and repeated work."""
    step = Graph("step")
    c, w = step.input("c", (4, 4)), step.input("w", (4, 4))
    step.set_outputs([step.tanh(step.matmul(c, step.transpose(w, perm=(1, 0))))])
    g = Graph("mixed")
    x, w = g.input("x", (4, 4)), g.param("w", (4, 4))
    (last,) = g.scan(x, w, body=step, length=3, num_carries=1, num_consts=1)
    image, kernel = g.input("image", (1, 3, 8, 8)), g.param("kernel", (4, 3, 3, 3))
    sums = g.reduce_sum(g.relu(g.conv(image, kernel)), axes=(0, 2, 3))
    long = g.sort(g.input("long", (300,)))
    g.set_outputs([g.exp(last) + g.exp(last) * sums, long * 2.0, g.matmul(x, w) + sums])
    return g


def test_all_passes_that_backends_do_without_may_be_left_out() -> None:
    whole = pipeline(CLAIMED, TARGET, lapack=lambda: True, takes_products=True)
    names = dict.fromkeys(each.name for each in whole.passes)
    assert tuple(name for name in names if name not in REQUIRED) == OPTIONAL_PASSES


@pytest.mark.parametrize("names", [*((name,) for name in OPTIONAL_PASSES), OPTIONAL_PASSES])
def test_values_are_the_same_without_a_pass(names: tuple[str, ...]) -> None:
    graph = mixed()
    feeds = typed_feeds(graph)
    params = {name: feeds.pop(name) for name in ("w", "kernel")}
    got = rlx.compile(graph, params=params, without=names).run(feeds)
    for one, other in zip(got, evaluate(graph, {**feeds, **params}), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_without_fusion_each_node_is_a_kernel() -> None:
    assert len(rlx.compile(chain()).schedule.thunks) == 1
    assert len(rlx.compile(chain(), without=("fuse",)).schedule.thunks) == 4
    f = rlx.jit(lambda x: rnp.exp(x) + x * 2.0, without="fuse")
    x = np.ones((8, 8), np.float32)
    assert len(f.executable(x).schedule.thunks) == 3
    np.testing.assert_allclose(np.asarray(f(x)), np.exp(x) + 2, rtol=1e-6)


def test_programs_with_and_without_a_pass_are_two_in_the_cache() -> None:
    cache, lapack = Cache(cache_directory()), Lapack(lambda: False)
    targets = (TARGET, without_passes(TARGET, ["fuse"]), without_passes(TARGET, ["simplify"]))
    keys = {ProgramCache(CBackend(), each, lapack, cache).key(chain(), 1) for each in targets}
    assert len(keys) == 3


def test_the_order_of_names_makes_no_other_program() -> None:
    assert pass_names(["fuse", "simplify", "fuse"]) == pass_names(("simplify", "fuse"))
    assert without_passes(TARGET, ()) == TARGET
    assert replace(without_passes(TARGET, "fuse"), disabled_passes=()) == TARGET


@pytest.mark.parametrize("names", ["fusion", ("legalize",), ["fuse", "fuze"]])
def test_an_unknown_name_is_an_error_that_lists_the_known(names: Iterable[str]) -> None:
    for refuse in (
        lambda: rlx.compile(chain(), without=names),
        lambda: rlx.jit(rnp.exp, without=names),
        lambda: rlx.compile(chain(), backend="reference", without=names),
    ):
        with pytest.raises(InputError, match="no pass that can be left out is called") as raised:
            refuse()
        assert "common-subexpressions" in str(raised.value)

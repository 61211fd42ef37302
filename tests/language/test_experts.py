"""Residency of experts: counts, capture and placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlx.errors import InputError, ShapeError
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.language.experts import ExpertMonitor, ExpertPool, ResidencyStats, budget_of, union
from rlx.language.model import load
from rlx.runtime.compile import compile as compile_graph
from tests.codegen.kernels.test_packed import packed_rows
from tests.language.tiny import HIDDEN, LAYERS, random_weights, write_model

CHOSEN = np.array([0, 1, 1, 2], np.int32)
FEEDS = {
    "x": (0.05 * np.arange(12)).reshape(4, 3).astype(np.float32),
    "w": np.stack([0.1 * (e + 1) + 0.01 * np.arange(6).reshape(3, 2) for e in range(3)]).astype(
        np.float32
    ),
    "e": CHOSEN,
}


def monitor(*, products: int = 1, experts: int = 3) -> ExpertMonitor:
    g = Graph("mixture")
    x, w, e = g.input("x", (4, 3)), g.input("w", (3, 3, 2)), g.input("e", (4,), "i32")
    g.set_outputs([g.grouped_matmul(x * float(n + 1), w, e) for n in range(products)])
    return ExpertMonitor(g, num_experts=experts, products_per_layer=1, threads=1)


def test_masks_change_accounts_and_no_number() -> None:
    program = monitor()
    (all_resident,) = program.run(FEEDS)
    assert program.take_stats() == ResidencyStats(3, 4, 0, 0)
    program.set_resident([False, True, True])
    (some,) = program.run(FEEDS)
    np.testing.assert_array_equal(all_resident, some)
    assert program.take_stats() == ResidencyStats(2, 3, 1, 1)
    assert program.take_stats() is None


def test_experts_that_are_not_resident_are_read_from_host_weights() -> None:
    g = Graph("mixture")
    x, w, e = g.input("x", (4, 3)), g.input("w", (3, 3, 2)), g.input("e", (4,), "i32")
    g.set_outputs([g.grouped_matmul(x, w, e)])
    host = [[FEEDS["w"] * 2]]
    program = ExpertMonitor(g, num_experts=3, products_per_layer=1, host_weights=host, threads=1)
    (resident,) = program.run(FEEDS)
    program.set_resident([True, False, True])
    (placed,) = program.run(FEEDS)
    np.testing.assert_allclose(placed, resident * np.array([[1], [2], [2], [1]]), rtol=1e-6)
    assert program.take_stats() == ResidencyStats(2, 2, 1, 2)
    with pytest.raises(InputError, match=r"product 0 have shape \(2, 3, 2\); they must have"):
        ExpertMonitor(g, num_experts=3, products_per_layer=1, host_weights=[[host[0][0][:2]]])


@pytest.mark.slow
def test_prompts_of_a_mixture_read_each_expert_once(tmp_path: Path) -> None:
    """In tiles of its rows; steps stream the same bytes, in one arena, to the same logits."""
    weights, rng = random_weights(), np.random.default_rng(1)
    for name in [name for name in weights if ".ffn_" in name and "norm" not in name]:
        experts = np.stack([weights.pop(name)] * 4)
        noise = 0.05 * rng.standard_normal(experts.shape).astype(np.float32)
        weights[name.replace(".weight", "_exps.weight")] = experts + noise
    for layer in range(LAYERS):
        gate = rng.standard_normal((4, HIDDEN)).astype(np.float32)
        weights[f"blk.{layer}.ffn_gate_inp.weight"] = gate
    more = {"expert_count": 4, "expert_used_count": 2}
    path = write_model(tmp_path / "m.gguf", "qwen3moe", weights, packed=True, **more)
    model, tokens = load(path, context=32, threads=1), [5, 3, 5, 17, 40, 2, 5]
    for token in tokens:
        model.feed([token])
    expected = model.logits
    model.reset()
    model.feed(tokens)
    np.testing.assert_allclose(model.logits, expected, rtol=1e-4, atol=1e-4)
    step, prompt = model._programs
    assert step.arena is prompt.arena
    products = [line for line in str(prompt.schedule).splitlines() if "grouped_dequant" in line]
    assert len(products) == 3 * LAYERS
    assert all("schedule(rows" in line for line in products), products


@pytest.mark.parametrize("top_k", [1, 4])
def test_the_group_limited_gate_is_the_specifications(top_k: int) -> None:
    """Row by row; ties go to the lower number."""
    rng = np.random.default_rng(4)
    scores = rng.uniform(size=(6, 16)).astype(np.float32)
    routing = np.round(scores + 0.3 * rng.standard_normal((6, 16)), 1).astype(np.float32)
    attributes: dict[str, Any] = {
        "n_group": 4,
        "topk_group": 2,
        "top_k": top_k,
        "routed_scaling": 1.5,
    }
    g = Graph("gate")
    g.set_outputs(g.group_limited_gate(g.input("s", (6, 16)), g.input("r", (6, 16)), **attributes))
    program = compile_graph(g, threads=1)
    numbers, shares = program.run({"s": scores, "r": routing})
    for row in range(6):
        of_group = np.sort(routing[row].reshape(4, 4))[:, -2:].sum(axis=1, dtype=np.float32)
        groups = np.argsort(-of_group, kind="stable")[:2]
        allowed = [e for e in range(16) if e // 4 in groups]
        chosen = sorted(allowed, key=lambda e: (-routing[row, e], e))[:top_k]
        assert numbers[row].tolist() == chosen
        total = scores[row, chosen].sum() if top_k > 1 else 1.0
        np.testing.assert_allclose(shares[row], scores[row, chosen] * 1.5 / total, rtol=1e-5)
    with pytest.raises(ShapeError, match="16 experts do not form 3 equal groups"):
        g.group_limited_gate(*g.inputs, n_group=3)
    with pytest.raises(ShapeError, match="9 experts of each row; 2 groups have 4 each"):
        g.group_limited_gate(*g.inputs, n_group=4, topk_group=2, top_k=9)


def test_masks_per_layer() -> None:
    program = monitor(products=2)
    program.set_resident_per_layer([[False, True, True], [True, False, True]])
    asked = [program.is_resident(*at) for at in ((0, 0), (0, 1), (1, 0), (1, 1), (7, 0))]
    assert asked == [False, True, True, False, True]
    program.run(FEEDS)
    assert program.take_stats() == ResidencyStats(4, 5, 2, 3)
    program.set_resident([True] * 3)
    assert program.is_resident(0, 0)
    with pytest.raises(InputError, match="a mask of 2 experts; there are 3"):
        program.set_resident([True, False])


def test_a_toy_mixture_has_known_values() -> None:
    """Softmax, the best expert, its matrix times its share; the gate's choice is captured."""

    def det(seed: int, count: int, scale: float) -> np.ndarray:
        i = np.arange(count)
        made: np.ndarray = (((7 * (i + seed) + 11) % 17) / 17 * scale - scale / 2).astype(
            np.float32
        )
        return made

    g = Graph("toy")
    x, gate, w = g.input("x", (4, 8)), g.param("gate", (8, 4)), g.param("w", (4, 8, 8))
    shares = g.softmax(g.matmul(x, gate), axis=-1)
    best, number = g.topk(shares, k=1)
    chosen = g.cast(g.reshape(number, shape=(4,)), to="i32")
    g.set_outputs([g.grouped_matmul(x, w, chosen) * best])
    params = {"gate": det(1, 32, 0.3).reshape(8, 4), "w": det(2, 256, 0.2).reshape(4, 8, 8)}
    program = ExpertMonitor(g, num_experts=4, params=params, threads=1)
    (out,) = program.run({"x": det(0, 32, 0.5).reshape(4, 8)})
    np.testing.assert_allclose(out[0, :3], [0.00894689, 0.0010146, -0.0069177], atol=1e-5)
    np.testing.assert_allclose(out[3, :3], [0.00411647, 0.00088526, 0.00367384], atol=1e-5)
    (captured,) = program.take_capture() or []
    assert captured.tolist() == [1, 2, 0, 3]
    assert captured.dtype == np.uint32
    assert program.take_capture() is None


def test_pools_place_what_is_chosen_most() -> None:
    pool = ExpertPool(4, 2)
    assert pool.hits([1, 0, 1, 2, 1, 9, -1]).tolist() == [1, 3, 1, 0]
    assert ExpertPool(5, 3).target([10, 50, 30, 0, 50]) == [1, 4, 2]
    pool = ExpertPool(8, 2)
    promoted, demoted = pool.place([6, 7])
    assert (len(promoted), len(demoted), pool.resident) == (2, 2, [6, 7])
    pool = ExpertPool(8, 4)
    promoted, demoted = pool.place([2, 3, 4, 5])
    assert (len(promoted), len(demoted), pool.resident) == (2, 2, [2, 3, 4, 5])
    pool = ExpertPool(8, 3)
    assert pool.refresh([7, 7, 1]) == ([7], [0])
    assert pool.mask == [False, True, True, False, False, False, False, True]


def test_when_placement_is_due() -> None:
    pool = ExpertPool(8, 2, every=3)
    assert [pool.should_refresh(step) for step in range(4)] == [True, False, False, True]
    assert pool.should_refresh(1, is_prefill=True)
    assert pool.should_refresh(1, forced=True)
    assert not ExpertPool(4, 9).should_refresh(0, forced=True)


def test_budgets_and_unions() -> None:
    assert budget_of(1000, 100, 30, 3, most=64, num_experts=16) == 10
    assert budget_of(10, 100, 30, 3, most=64, num_experts=16) == 0
    assert budget_of(1000, 100, 0, 3, most=8, num_experts=16) == 8
    assert union([[True, False], [False, False]]) == [True, False]


@pytest.mark.parametrize("scheme", ["q4_0", "q8_0", "q6_k"])
def test_stacks_are_decoded_as_plain_products_take_them(scheme: str) -> None:
    """Every scheme."""
    width = BLOCK_TYPES[scheme].elements
    stack = packed_rows(scheme, 6, width).reshape(2, 3, -1)
    g = Graph("decoded")
    g.set_outputs([g.dequant_moe_weights(g.input("w", stack.shape, "u8"), scheme=scheme)])
    (decoded,) = evaluate(g, {"w": stack})
    expected = np.swapaxes(decode_blocks(stack, BLOCK_TYPES[scheme]), 1, 2)
    np.testing.assert_array_equal(decoded, expected)

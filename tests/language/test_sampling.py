"""The next token: greedy, tempered, cut by top-k, top-p and min-p, and reproducible."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.errors import DTypeError, IndexOutOfRangeError, InputError, ShapeError
from rlx.gguf import encode
from rlx.ir.block_decoding import decode_blocks
from rlx.ir.block_types import BLOCK_TYPES
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.language.sampling import Sampling, choice_feeds
from rlx.language.sampling_graph import Choice, sampled
from rlx.random import philox
from rlx.random.philox import sample
from rlx.runtime.compile import compile as compile_graph

PROBABILITIES = np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
Draw = Callable[..., int]


@functools.cache
def program(vocabulary: int) -> Any:
    """Return the one program that chooses a token of so many, by any settings."""
    g = Graph("draw")
    logits = g.input("logits", (1, vocabulary))
    seen = (g.input("history", (Dim("past", max=8),), "i32"), g.input("tokens", (1,), "i32"))
    g.set_outputs([sampled(g, logits, Choice.declared(g, vocabulary, [seen]))])
    return compile_graph(g, backend="llvm", threads=1)


def drawn_with(
    sampling: Sampling, logits: np.ndarray | None = None, mask: np.ndarray | None = None
) -> Draw:
    """Return a function of seed, position and history that draws a token."""
    x = np.log(PROBABILITIES) if logits is None else logits

    def draw(seed: int = 0, position: int = 0, history: tuple[int, ...] = ()) -> int:
        size = x.shape[1]
        (token,) = program(size).run(
            {
                "logits": x, "history": np.array(history, np.int32),
                "tokens": np.zeros(1, np.int32),
                **choice_feeds([sampling], [seed], [position], size, [mask]),
            }
        )  # fmt: skip
        return int(token[0])

    return draw


def shares(sampling: Sampling, count: int = 800) -> np.ndarray:
    draw = drawn_with(sampling)
    return np.bincount([draw(7, i) for i in range(count)], minlength=4) / count


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    np.testing.assert_allclose(shares(Sampling(temperature=1.0)), PROBABILITIES[0], atol=0.05)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, top_k=2),
        Sampling(temperature=1.0, top_p=0.65),
        Sampling(temperature=1.0, min_p=0.6),
        Sampling(temperature=1.0, logit_bias={0: -np.inf, 1: -1e9}),
        Sampling(temperature=1e30, top_k=2),
    ],
)
def test_unlikely_tokens_are_left_out(sampling: Sampling) -> None:
    expected = [0, 0, 0.5, 0.5] if sampling.temperature > 1 else [0, 0, 3 / 7, 4 / 7]
    np.testing.assert_allclose(shares(sampling), expected, atol=0.05)


def test_typical_tokens_are_those_near_the_entropy() -> None:
    """It is 1.28 nats; the four tokens have 2.30, 1.61, 1.20 and 0.92."""
    found = shares(Sampling(temperature=1.0, typical_p=0.25))
    assert found.tolist() == [0, 0, 1, 0]
    found = shares(Sampling(temperature=1.0, typical_p=0.45))
    np.testing.assert_allclose(found, [0, 0.4, 0.6, 0], atol=0.05)


def test_a_mask_leaves_only_its_tokens() -> None:
    allowed = np.array([True, False, True, False])
    for sampling in (Sampling(), Sampling(temperature=2.0, top_k=1)):
        assert {drawn_with(sampling, mask=allowed)(7, i) for i in range(9)} == {2}


def test_a_low_temperature_takes_the_likeliest() -> None:
    assert shares(Sampling(temperature=0.01), 50).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-40, 1e-300])
def test_however_low_it_is(temperature: float) -> None:
    """Logits divided by such numbers are infinite, and of those all are alike."""
    logits = np.array([[3.0, 5.0, 40.0, 40.5, -2.0]], np.float32)
    draw = drawn_with(Sampling(temperature=temperature), logits)
    assert {draw(7, i) for i in range(9)} == {3}


@pytest.mark.parametrize("temperature", [1e30, float("inf")])
def test_a_temperature_without_bounds_draws_all_tokens_alike(temperature: float) -> None:
    np.testing.assert_allclose(shares(Sampling(temperature=temperature)), 0.25, atol=0.06)


def test_seeds_reproduce_and_differ() -> None:
    draw = drawn_with(Sampling(temperature=1.0))
    texts = [[draw(seed, i) for i in range(40)] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_repetition_is_less_likely() -> None:
    draw = drawn_with(Sampling(repetition_penalty=2.0))
    assert draw() == 3
    assert draw(history=(3,)) == 2
    assert (
        drawn_with(Sampling(repetition_penalty=2.0), np.array([[0, 3, 4.0]], "f4"))(history=(2, 2))
        == 1
    )


def test_presence_counts_once_and_frequency_each_time() -> None:
    logits = np.array([[0.0, 3.0, 4.0]], np.float32)
    for sampling, history, token in (
        (Sampling(presence_penalty=0.9), (2, 2, 2), 2),
        (Sampling(presence_penalty=1.1), (2,), 1),
        (Sampling(frequency_penalty=0.4), (2, 2), 2),
        (Sampling(frequency_penalty=0.4), (2, 2, 2), 1),
        (Sampling(logit_bias={1: 1.5}), (), 1),
    ):
        assert drawn_with(sampling, logits)(history=history) == token


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("typical_p", 0), ("presence_penalty", np.nan), ("frequency_penalty", 1e7),
        ("logit_bias", {1: np.nan}), ("logit_bias", {"a": 1}), ("logit_bias", {1: np.inf}),
        ("temperature", -1.0), ("temperature", np.nan), ("temperature", "1"), ("top_k", 2.5),
        ("top_k", -1), ("top_p", 0.0), ("min_p", 2.0), ("repetition_penalty", 0.0),
        ("repetition_penalty", np.inf), ("repetition_penalty", 1e-40), ("top_k", True),
    ],
)  # fmt: skip
def test_options_are_checked(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        Sampling(**{name: value})


Array = NDArray[Any]


def test_leading_axes_of_logits_are_rows() -> None:
    logits = np.tile(np.arange(1.0, 5, dtype=np.float32), (3, 4, 1))
    flat = sample(logits.reshape(12, 4), 42)
    assert np.asarray(sample(logits, 42)).tolist() == np.asarray(flat).reshape(3, 4).tolist()
    assert int(sample(np.array([0, 9, 0], np.float32), 1, temperature=1e-3)) == 1


def test_topk_repeats_no_index() -> None:
    g = Graph("topk")
    x = g.input("x", (2, 4))
    g.set_outputs(g.topk(x, k=3))
    rows = np.array([[-np.inf, -np.inf, 2, -np.inf], [1, np.inf, np.nan, 0]], np.float32)
    for outputs in (evaluate(g, {"x": rows}), compile_graph(g, threads=1).run({"x": rows})):
        assert outputs[1].tolist() == [[2, 0, 1], [2, 1, 0]]
    with pytest.raises(ShapeError, match="5"):
        g.topk(x, k=5)


def test_steps_draw_different_numbers_and_masked_tokens_never() -> None:
    """One compiled program: the offset is an input. Rows without a distribution are errors."""
    step = rlx.jit(lambda logits, offset: sample(logits, 42, top_k=2, offset=offset))
    row = np.arange(1.0, 5, dtype=np.float32)[None]
    drawn = [int(step(row, np.uint32(b))[0]) for b in range(12)]
    assert drawn == [3, 2, 3, 2, 2, 2, 3, 3, 3, 3, 3, 2]
    for bad in ([np.nan, 1.0], [np.inf, 1.0], [-np.inf, -np.inf]):
        with pytest.raises(IndexOutOfRangeError):
            step(np.array([bad], np.float32), np.uint32(0))


def test_adapters_of_each_example() -> None:
    """`x @ W + scale * (x @ A) @ B` where all four have a batch: products for each example."""
    draw = np.random.default_rng(42).standard_normal
    x, w, a, b = draw((3, 4, 8)), draw((3, 8, 6)), draw((3, 8, 2)), draw((3, 2, 6))
    batched = rlx.vmap(lambda x, w, a, b: x @ w + 0.5 * ((x @ a) @ b))(x, w, a, b)
    expected = np.einsum("bmk,bkn->bmn", x, w + 0.5 * np.einsum("bkr,brn->bkn", a, b))
    np.testing.assert_allclose(batched, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op", ["dequant_matmul", "int8_dequant_matmul", "grouped_dequant_matmul"])
def test_other_floats_than_f32_are_refused(op: str) -> None:
    g = Graph("f64")
    x, grouped = g.input("x", (1, 32), "f64"), op.startswith("grouped")
    blocks = g.input("w", (2, 3, 18) if grouped else (3, 18), "u8")
    experts = [g.input("e", (1,), "i32")] if grouped else []
    with pytest.raises(DTypeError, match="x has dtype f64"):
        getattr(g, op)(x, blocks, *experts, scheme="q4_0")


@pytest.mark.parametrize("seed", [0, 2**31 - 1, 2 * (2**31 - 1), 2**32 - 1, 2**63])
def test_seeds_that_stick_a_linear_generator_draw_as_any_other(seed: int) -> None:
    """There is no `minstd_rand0` here: draws are of counters, so that none depends on the last."""
    drawn = np.asarray(philox.normal(seed, 1, (4096,)))
    assert len(np.unique(drawn)) > 4000
    assert abs(drawn.mean()) < 0.06
    assert abs(drawn.std() - 1) < 0.05
    key = rlx.random.key(seed)
    assert len(np.unique(np.asarray(rlx.random.uniform(key, (4096,))))) > 4000


def test_a_traced_seed_draws_from_its_stream_without_recompilation() -> None:
    traces = []

    @rlx.jit
    def draw(seed: Any) -> Any:
        traces.append(seed)
        return sample(np.zeros((4, 1000), np.float32), seed)

    for seed in (0, 1, 42, 2**40 + 3):
        stream = np.floor(1000 * np.asarray(philox.uniform(seed, 0, (4,))))
        np.testing.assert_array_equal(draw(np.int64(seed)), stream)
        np.testing.assert_array_equal(sample(np.zeros((4, 1000), np.float32), seed), stream)
    assert len(traces) == 1


def test_a_convolution_does_not_depend_on_what_rounded_its_weights() -> None:
    """Rounding is an op with a rule of its own, so that gradients pass both, each by its rule."""
    draw = np.random.default_rng(5).standard_normal
    x, w = (draw(shape).astype(np.float32) for shape in ((1, 2, 6, 6), (3, 2, 3, 3)))

    def through(w: Any) -> Any:
        return rlx.nn.conv(x, rlx.nn.fake_quantize(w, bits=4), padding=1)

    rounded = np.asarray(rlx.nn.fake_quantize(w, bits=4))
    want = rlx.grad(lambda w: (rlx.nn.conv(x, w, padding=1) ** 2).sum())(rounded)
    found = rlx.grad(lambda w: (through(w) ** 2).sum())(w)
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("top_k", "top_p", "temperature", "seed", "expected"),
    [
        (0, 1.0, 1.0, 42, "323122333332"),
        (0, 1.0, 1.0, 0xDEADBEEF, "312303212231"),
        (2, 1.0, 1.0, 42, "323222333332"),
        (0, 0.5, 1.0, 42, "333333333333"),
        (0, 0.9, 0.7, 12345, "233233333333"),
        (3, 0.8, 2.0, 7, "333233233322"),
    ],
)
def test_sample(top_k: int, top_p: float, temperature: float, seed: int, expected: str) -> None:
    """Twelve rows, each of the next word of the stream."""
    logits = np.tile(np.arange(1.0, 5, dtype=np.float32), (12, 1))
    drawn = sample(logits, seed, top_k=top_k, top_p=top_p, temperature=temperature)
    assert "".join(map(str, np.asarray(drawn).tolist())) == expected


def test_sample_takes_the_likeliest_where_others_have_no_chance() -> None:
    logits = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 9, 0.7, 0.8], np.float32)
    assert int(sample(logits, 42, temperature=1e-3)) == 5
    assert int(sample(np.array([0.1, 5, 0.3, 0.4], np.float32), 7, top_k=1)) == 1


HAND_BLOCKS: dict[str, tuple[list[int], Array]] = {
    "q8_0": ([0, 0x38, *range(240, 256), *range(16)], 0.5 * (np.arange(32) - 16)),
    "q4_0": ([0, 0x3C, *(17 * i for i in range(16))], np.arange(32) % 16 - 8.0),
    "q4_k": (
        [0, 0x3C, 0, 0x3C, *[1] * 4, *[0] * 8, *[0x77] * 128], np.repeat([7.0, 0.0], 128)
    ),
    "q6_k": ([*[0] * 128, *[0xAA] * 64, *[1] * 16, 0, 0x3C], np.zeros(256)),
    "q2_k": ([*[1] * 16, *[0xFF] * 64, 0, 0x3C, 0, 0], np.full(256, 3.0)),
}  # fmt: skip


@pytest.mark.parametrize("scheme", HAND_BLOCKS)
def test_hand_blocks(scheme: str) -> None:
    block, expected = HAND_BLOCKS[scheme]
    found = decode_blocks(np.array(block, np.uint8), BLOCK_TYPES[scheme])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("scheme", "x", "expected"),
    [
        ("q4_k", 0.01 * np.arange(1, 513), [577.92, 2871.68]),
        ("q6_k", np.ones(512), [0.0, 0.0]),
    ],
)
def test_products_with_hand_blocks(scheme: str, x: Array, expected: list[float]) -> None:
    blocks = np.array([HAND_BLOCKS[scheme][0]], np.uint8)
    g = Graph("hand")
    w = g.param("w", blocks.shape, "u8")
    g.set_outputs([g.dequant_matmul(g.input("x", (2, 256)), w, scheme=scheme)])
    program = compile_graph(g, params={"w": blocks}, threads=1)
    (y,) = program.run({"x": x.reshape(2, 256).astype(np.float32)})
    np.testing.assert_allclose(y[:, 0], expected, rtol=1e-3, atol=1e-4)


def test_a_product_is_that_with_the_decoded_weights() -> None:
    """Q8_K: fused, compared with decoded in full."""
    draw = np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)
    blocks = encode(draw, "q8_k")
    x = (0.01 * np.arange(512)).reshape(2, 256).astype(np.float32)
    g = Graph("fused")
    w = g.param("w", blocks.shape, "u8")
    g.set_outputs([g.dequant_matmul(g.input("x", x.shape), w, scheme="q8_k")])
    (y,) = compile_graph(g, params={"w": blocks}, threads=1).run({"x": x})
    full = x @ decode_blocks(blocks, BLOCK_TYPES["q8_k"]).T
    np.testing.assert_allclose(y, full, rtol=1e-4, atol=1e-3)

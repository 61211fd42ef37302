"""A model takes tokens in any portions, with the same result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import FormatError, InputError, UnsupportedError
from rlx.gguf import read
from rlx.ir.reference.interpreter import check_extents, symbolic_uses
from rlx.language import decoder
from rlx.language.config import DecoderConfig
from rlx.language.decoder import decoder_graph
from rlx.language.lora import Adapters, Lora
from rlx.language.model import LanguageModel, load
from rlx.language.params import CacheDType
from rlx.language.programs import graph_name
from rlx.language.sampling import Sampling, choice_feeds
from rlx.runtime.compile import compile as compile_graph
from tests.gguf.files import gguf_file
from tests.language.tiny import VOCABULARY, metadata, random_weights, write_model

TOKENS = [int(t) for t in np.random.default_rng(0).integers(0, VOCABULARY, 30)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    return write_model(directory / "m.gguf", "llama", random_weights(), packed=True)


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    return load(path, context=32, backend="llvm", threads=1)


@pytest.mark.slow
def test_prompts_and_steps_take_turns(model: LanguageModel) -> None:
    """Keys and values follow from one program to the other, also after a reset."""
    model.reset()
    for token in TOKENS:
        model.feed([token])
    expected = model.logits
    for portions in ((30,), (13, 1, 1, 10, 5), (1, 2, 27), (20, 10)):
        model.reset()
        first = 0
        for size in portions:
            model.feed(TOKENS[first : first + size])
            first += size
        np.testing.assert_allclose(model.logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_programs_are_found_by_the_head_of_the_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No graph is built for a file whose head, and options, were met before."""
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    model = load(path, context=32, backend="llvm", threads=1)
    model.feed(TOKENS[:4])
    built: list[int] = []
    make = decoder.decoder_graph

    def spy(*args: Any, **options: Any) -> Any:
        built.append(options["context"])
        return make(*args, **options)

    monkeypatch.setattr(decoder, "decoder_graph", spy)
    again = load(path, context=32, backend="llvm", threads=1)
    again.feed(TOKENS[:4])
    np.testing.assert_array_equal(again.logits, model.logits)
    assert built == []
    load(path, context=30, backend="llvm", threads=1).feed(TOKENS[:4])
    assert built == [30, 30]
    again._programs[0].schedule  # noqa: B018 (its graph is built to be shown)
    assert built == [30, 30, 32]


def test_what_is_in_a_graph_is_in_its_name(path: Path, tmp_path: Path) -> None:
    file = read(path)
    narrow, wide = (Adapters.first(file, Lora(rank=rank)) for rank in (2, 4))
    half_values = {name: value.astype(np.float16) for name, value in narrow.values.items()}
    halves = replace(narrow, values=half_values)
    names = {
        graph_name("step", file, None, 1),
        graph_name("step", file, None, 2),
        graph_name("prompt", file, None, 1),
        *(graph_name("step", file, adapters, 1) for adapters in (narrow, wide, halves)),
    }
    assert len(names) == 6
    scaled = []
    for factor in (1.0, 2.0):  # the same head, and other tables of cosines
        weights = {**random_weights(), "rope_freqs.weight": np.full(8, factor, np.float32)}
        scaled.append(read(write_model(tmp_path / f"{factor}.gguf", "llama", weights, packed=True)))
    assert scaled[0].digest == scaled[1].digest
    assert graph_name("step", scaled[0], None) != graph_name("step", scaled[1], None)


@pytest.mark.parametrize("rows", [(1,), (256, 1, 16)])
def test_decoders_take_all_extents_within_the_bounds(path: Path, rows: tuple[int, ...]) -> None:
    """What lets a program found by its name run without asking its graph's ops."""
    model = load(path, context=128, threads=1)
    dim = rlx.Dim("rows", min=1, max=model._most_rows)
    graph = model._graph("prompt", 1 if rows == (1,) else dim).build()
    uses = symbolic_uses(graph)
    for count in rows:
        fits = min(count, model._most_rows)
        for past in (0, 1, model.context - (1 if rows == (1,) else model._most_rows)):
            check_extents(uses, {"rows": fits, "past": past})


def test_the_reference_interpreter_agrees(path: Path, model: LanguageModel) -> None:
    graph, weights = decoder_graph(read(path), rows=5, context=32)
    state = {n: np.zeros(graph.leaf(n).type.static_shape, np.float32) for n in graph.donations}
    reference = compile_graph(graph, backend="reference", params={**weights.values, **state})
    feeds = {
        "tokens": np.array(TOKENS[:5], np.int32), "history": np.zeros(0, np.int32),
        "start": np.zeros(2, np.int32), **choice_feeds([Sampling()], [0], [4], VOCABULARY),
    }  # fmt: skip
    token, logits, *_ = reference.run(feeds)
    model.reset()
    assert model.feed(TOKENS[:5]) == token[0]
    np.testing.assert_allclose(model.logits, logits, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "within"), [("f16", 1e-3), ("bf16", 1e-2)])
def test_keys_and_values_in_16_bits(
    path: Path, model: LanguageModel, kept: CacheDType, within: float
) -> None:
    """Of the largest logit: half an ulp of f16 is 5e-4, of bf16 4e-3. A batch rounds alike."""
    rounded = load(path, context=32, threads=1, cache_dtype=kept)
    for each in (model, rounded):
        each.reset()
        each.feed(TOKENS[:9])
        each.feed(TOKENS[9:10])
    error = np.abs(model.logits - rounded.logits).max() / np.abs(model.logits).max()
    assert 0 < error < within
    step, prompt = rounded._programs
    assert step.arena is prompt.arena
    assert step.state("blk.0.keys").dtype.itemsize == 2
    assert load(path, context=32).cache_dtype == "f32"
    assert load(path, context=32, accuracy="int8").cache_dtype == "f16"
    rounded.reset()
    alone = list(rounded.generate(TOKENS[:3], max_tokens=3, stop=()))
    assert rounded.generate_batch([TOKENS[:3]], max_tokens=3, stop=()) == [alone]
    with pytest.raises(InputError, match="there is no cache_dtype 'f8'"):
        load(path, cache_dtype="f8")  # type: ignore[arg-type]


def test_generate_feeds_what_it_yields(model: LanguageModel) -> None:
    model.reset()
    tokens = list(model.generate(TOKENS[:3], max_tokens=5, stop=()))
    assert model.history == [*TOKENS[:3], *tokens[:-1]]
    model.reset()
    before = tokens[: tokens.index(tokens[-1])]
    assert list(model.generate(TOKENS[:3], max_tokens=5, stop=tokens[-1:])) == before


def test_sampling_may_change_at_any_time(path: Path) -> None:
    """It was part of the programs: another was ignored, or compiled anew."""
    model = load(path, context=32, backend="llvm", threads=1)
    plain = [model.feed(TOKENS[:4]), *(model.feed([t]) for t in TOKENS[4:8])]
    model.reset()
    programs = model._programs
    model.sampling = Sampling(logit_bias=dict.fromkeys(plain, -np.inf))
    others = [model.feed(TOKENS[:4]), *(model.feed([t]) for t in TOKENS[4:8])]
    assert not set(plain) & set(others)
    model.reset()
    model.sampling = Sampling()
    assert [model.feed(TOKENS[:4]), *(model.feed([t]) for t in TOKENS[4:8])] == plain
    assert model._programs is programs
    model.sampling = Sampling(logit_bias={VOCABULARY: 1.0})
    with pytest.raises(InputError, match="logit_bias names token 80, outside"):
        model.feed([1])


def test_the_context_is_a_limit(model: LanguageModel) -> None:
    model.reset()
    assert len(list(model.generate(TOKENS, max_tokens=100, stop=()))) == 3  # 30 + 2 fill it
    with pytest.raises(InputError, match="33 tokens do not fit a context of 32"):
        model.feed([1])


def test_tokens_are_checked(model: LanguageModel) -> None:
    model.reset()
    with pytest.raises(InputError, match="token 80 is outside the vocabulary of 80"):
        model.feed([80])
    with pytest.raises(InputError, match="no tokens"):
        model.feed([])


@pytest.mark.parametrize("tokens", [[1.0, 2.0], np.array([1.5]), "ab", np.ones((2, 2)), [None]])
def test_tokens_are_integers(model: LanguageModel, tokens: Any) -> None:
    """A float was cut to an integer."""
    for use in (
        lambda: model.feed(tokens),
        lambda: model.generate_batch([tokens], max_tokens=1),
    ):
        with pytest.raises(InputError, match="a token is an integer"):
            use()
    assert model.history == []


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", None])
def test_seeds_have_64_bits(path: Path, seed: Any) -> None:
    """Others meant what one of these means."""
    with pytest.raises(InputError, match="the seed is"):
        load(path, seed=seed)
    model = load(path, context=16, threads=1)
    model.seed = seed
    with pytest.raises(InputError, match="the seed is"):
        model.feed([1])


@pytest.mark.parametrize("context", [16.0, "16", 0, 1, 1 << 40])
def test_a_context_is_an_integer_within_the_models(path: Path, context: Any) -> None:
    with pytest.raises(InputError, match=r"context is|a context of"):
        load(path, context=context)


def test_a_larger_context_than_the_models_is_refused(path: Path) -> None:
    with pytest.raises(InputError, match="the model has 128"):
        load(path, context=129)


def config_of(tmp_path: Path, data: bytes) -> DecoderConfig:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    return DecoderConfig.of(read(path))


def test_missing_metadata_is_named(tmp_path: Path) -> None:
    keys = metadata("llama")
    del keys["llama.block_count"]
    with pytest.raises(FormatError, match=r"key 'llama.block_count' is None; it must be there"):
        config_of(tmp_path, gguf_file(keys, {}))


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="'mamba', is not supported"):
        config_of(tmp_path, gguf_file({"general.architecture": "mamba"}, {}))


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    weights = random_weights()
    del weights["blk.1.ffn_up.weight"]
    path = write_model(tmp_path / "m.gguf", "llama", weights, packed=True)
    with pytest.raises(FormatError, match=r"tensor 'blk.1.ffn_up.weight' is missing"):
        load(path, context=32).feed([1])


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    weights = random_weights()
    weights["blk.0.attn_k.weight"] = weights["blk.0.attn_q.weight"]
    path = write_model(tmp_path / "m.gguf", "llama", weights, packed=True)
    with pytest.raises(FormatError, match=r"'blk.0.attn_k.weight' has shape \(64, 64\)"):
        load(path, context=32).feed([1])


@pytest.mark.slow
def test_a_prompt_that_does_not_fit_the_context_is_refused(path: Path) -> None:
    model = load(path, context=8, backend="llvm", threads=1)
    assert len(list(model.generate(TOKENS[:1] * 8, max_tokens=5, stop=[]))) == 1
    model.reset()
    with pytest.raises(InputError, match="9 tokens do not fit a context of 8"):
        list(model.generate(TOKENS[:1] * 9, max_tokens=5, stop=[]))


@pytest.mark.slow
def test_a_prompt_may_be_an_array(path: Path) -> None:
    model = load(path, context=8, backend="llvm", threads=1)
    expected = model.feed(TOKENS[:3])
    model.reset()
    prompt: Any = np.array(TOKENS[:3])
    assert model.feed(prompt) == expected
    with pytest.raises(InputError, match="no tokens to feed"):
        model.feed(prompt[:0])


def test_a_backend_that_keeps_no_state_is_refused(path: Path) -> None:
    with pytest.raises(UnsupportedError, match="'reference' keeps no state"):
        load(path, backend="reference")


def test_gemma2_has_a_window_of_4096_where_the_file_has_none(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", "gemma2", random_weights(), packed=False)
    config = DecoderConfig.of(read(path))
    assert [config.of_layer(number).window for number in range(2)] == [4096, None]

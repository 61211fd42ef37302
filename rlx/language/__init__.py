"""Language models from GGUF files: built from metadata, compiled, run token by token.

What trains, and what watches experts, is imported when it is first used: who only runs a model that
is compiled already needs no ops.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rlx.language.config import DecoderConfig
from rlx.language.embedding import EmbeddingModel, load_embedding
from rlx.language.grammar import Grammar
from rlx.language.lora import Adapters, Lora
from rlx.language.model import LanguageModel, load
from rlx.language.model_draft import ModelDraft
from rlx.language.sampling import Sampling
from rlx.language.speculation import PromptLookup
from rlx.language.streaming import TextStream
from rlx.language.tokenizer import TextTokenizer
from rlx.public_names import names_of as _names_of

if TYPE_CHECKING:
    from rlx.language.experts import ExpertMonitor as ExpertMonitor
    from rlx.language.experts import ExpertPool as ExpertPool
    from rlx.language.training import FineTuning as FineTuning

_HOMES = {"ExpertMonitor": "experts", "ExpertPool": "experts", "FineTuning": "training"}

__all__ = [
    "Adapters",
    "DecoderConfig",
    "EmbeddingModel",
    "ExpertMonitor",
    "ExpertPool",
    "FineTuning",
    "Grammar",
    "LanguageModel",
    "Lora",
    "ModelDraft",
    "PromptLookup",
    "Sampling",
    "TextStream",
    "TextTokenizer",
    "load",
    "load_embedding",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rlx.language' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rlx.language.{_HOMES[name]}"), name)


__dir__ = _names_of(__name__)

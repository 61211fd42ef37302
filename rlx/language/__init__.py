"""Language models from GGUF files: built from metadata, compiled, run token by token.

Training is imported when it is first used: who only runs a model needs no optimizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlx.language.config import DecoderConfig
from rlx.language.experts import ExpertMonitor, ExpertPool
from rlx.language.lora import Adapters, Lora
from rlx.language.model import LanguageModel, load
from rlx.language.sampling import Sampling
from rlx.language.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from rlx.language.training import FineTuning as FineTuning

__all__ = [
    "Adapters",
    "DecoderConfig",
    "ExpertMonitor",
    "ExpertPool",
    "FineTuning",
    "LanguageModel",
    "Lora",
    "Sampling",
    "TextTokenizer",
    "load",
]


def __getattr__(name: str) -> Any:
    if name != "FineTuning":
        raise AttributeError(f"module 'rlx.language' has no attribute {name!r}")
    from rlx.language.training import FineTuning

    return FineTuning

"""Language models from GGUF files: built from metadata, compiled, run token by token."""

from rlx.language.config import DecoderConfig
from rlx.language.experts import ExpertMonitor, ExpertPool
from rlx.language.lora import Adapters, Lora
from rlx.language.model import LanguageModel, load
from rlx.language.sampling import Sampling
from rlx.language.tokenizer import TextTokenizer
from rlx.language.training import FineTuning

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

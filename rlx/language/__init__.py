"""Language models from GGUF files: built from metadata, compiled, run token by token."""

from rlx.language.config import DecoderConfig
from rlx.language.model import LanguageModel, load
from rlx.language.sampling import Sampling
from rlx.language.tokenizer import TextTokenizer

__all__ = ["DecoderConfig", "LanguageModel", "Sampling", "TextTokenizer", "load"]

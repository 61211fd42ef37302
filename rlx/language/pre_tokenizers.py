"""How text is cut into words before these are merged, by `tokenizer.ggml.pre` of a file.

Each expression cuts the pieces that the ones before it left: what it matches is a word, and so is
what is between two matches. Names and expressions are those of llama.cpp (`llama-vocab.cpp`).
"""

from __future__ import annotations

from rlx.dataclass import dataclass

_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
_START = r"[^\r\n\p{L}\p{N}]?"

_SIGNS_OF_MANY = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_EASTERN = "(?:(?!\\s)[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff])+"
_CASED = (
    "[\\p{Lu}\\p{Ll}\\p{Lt}&&[^\u0560-\u0588\u10c7\u10cd\u10d0-\u10ff\u1c80-\u1c8a\u2d00-\u2d2d"
    "\ua790-\uab6f\U00010570-\U000105bc\U00010d50-\U00010d85\U00016e40-\U00016e7f"
    "\U0001d400-\U0001df2a]]"
)
"""Letters that have a case, of the Unicode that DeepSeek's first models were made with."""


def _words(digits: str, letters: str = r"\p{L}+") -> str:
    return rf"{_CONTRACTIONS}|{_START}{letters}|\p{{N}}{digits}{_SIGNS}{_SPACES}"


def _cased(digits: str, ending: str) -> str:
    """Return words that begin anew where lower case becomes upper case."""
    words = (f"{_START}{_UPPER}*{_LOWER}+{ending}", f"{_START}{_UPPER}+{_LOWER}*{ending}")
    return rf"{'|'.join(words)}|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{_SPACES}"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """The cuts, and what else goes by the name."""

    expressions: tuple[str, ...]
    names: str
    whole_words: bool = False
    """True if a word that is a token is not merged."""
    adds_start: bool = False
    """True if a text begins with the start token unless the file says otherwise."""


PRE_TOKENIZERS = (
    PreTokenizer(
        (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"), "default",
    ),
    PreTokenizer(
        (_words("{1,3}"),),
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
        whole_words=True, adds_start=True,
    ),
    PreTokenizer((_words("{1,3}"),), "dbrx smaug-bpe glm4 chatglm-bpe"),
    PreTokenizer((_words(""),), "qwen2 stablelm2 deepseek-r1-qwen megrez hunyuan"),
    PreTokenizer(
        (rf"{_CONTRACTIONS}|{_START}[\p{{L}}\p{{M}}]+|\p{{N}}"
         rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*{_SPACES}",), "qwen35",
    ),
    PreTokenizer((_cased("", ""),), "tekken", whole_words=True, adds_start=True),
    PreTokenizer((_cased("{1,3}", f"{_CONTRACTIONS}?"),), "gpt-4o llama4"),
    PreTokenizer(
        ("[\r\n]", rf"\s?{_CASED}+",
         "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
         r"\s+$", _EASTERN, r"\p{N}+"), "deepseek-llm",
    ),
    PreTokenizer(
        ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EASTERN, r"\p{N}"), "deepseek-coder",
    ),
    PreTokenizer(
        (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
         r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
         r"| ?[\p{P}\p{S}]+[\r\n]*" + _SPACES), "deepseek-v3",
    ),
    PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"), "falcon"),
    PreTokenizer(
        (r"\p{N}", _GPT2), "smollm starcoder refact command-r codeshell exaone minerva-7b",
    ),
    PreTokenizer(
        (_GPT2,),
        "gpt-2 mpt olmo jais phi-2 roberta-bpe trillion granite-docling gigachat mellum a.x-4.0 "
        "jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code modern-bert exaone4",
    ),
    PreTokenizer((_SIGNS_OF_MANY,), "bloom gpt3-finnish poro-chat"),
    PreTokenizer((_SIGNS_OF_MANY, r"\p{N}"), "viking"),
)  # fmt: skip

BY_NAME = {name: each for each in PRE_TOKENIZERS for name in each.names.split()}

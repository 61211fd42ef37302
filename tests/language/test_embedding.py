"""Models of embeddings give the rows of transformers' models, pooled as their files say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import FormatError, InputError, UnsupportedError
from rlx.gguf import read
from rlx.language import load, load_embedding
from rlx.language.tokenizer import TextTokenizer
from tests.gguf.files import f32, gguf_file
from tests.language.tiny import HEADS, HIDDEN, LAYERS, VOCABULARY, WIDE, random_weights, write_model
from tests.transformers_library import import_transformers

Array = NDArray[Any]

COMMON = {
    "hidden_size": HIDDEN, "intermediate_size": WIDE, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "vocab_size": VOCABULARY, "max_position_embeddings": 64,
}  # fmt: skip
NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k",
    "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "self_attn.o_proj": "attn_output", "mlp.up_proj": "ffn_up", "mlp.gate_proj": "ffn_gate",
    "mlp.down_proj": "ffn_down", "post_attention_layernorm": "attn_output_norm",
    "post_mlp_layernorm": "layer_output_norm",
}  # fmt: skip
CASES = {"bert": "Bert", "nomic-bert": "NomicBert"}


def transformers_model(architecture: str) -> Any:
    torch: Any = pytest.importorskip("torch")
    transformers = import_transformers()
    torch.manual_seed(0)
    kind = CASES[architecture]
    config = getattr(transformers, f"{kind}Config")(**COMMON, attn_implementation="eager")
    model = getattr(transformers, f"{kind}Model")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def tensors_of(model: Any) -> dict[str, Array]:
    """Return a model's parameters as a file has them; q, k and v of nomic-bert in one matrix."""
    found: dict[str, Array] = {}
    joined: dict[str, list[Array]] = {}
    for name, parameter in model.state_dict().items():
        value = parameter.detach().numpy()
        stem, _, ending = name.removeprefix("encoder.").rpartition(".")
        prefix = ""
        if stem.startswith("layer"):
            _, number, stem = stem.split(".", 2)
            prefix = f"blk.{number}."
        if stem in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"):
            joined.setdefault(f"{prefix}attn_qkv.weight", []).append(value)
        elif not stem.startswith("pooler"):
            found[f"{prefix}{NAMES[stem]}.{ending}"] = value
    return found | {name: np.concatenate(parts) for name, parts in joined.items()}


@pytest.mark.parametrize("form", ["gguf", "folder"])
@pytest.mark.parametrize("architecture", CASES)
def test_rows_are_those_of_transformers(architecture: str, form: str, tmp_path: Path) -> None:
    model = transformers_model(architecture)
    torch: Any = pytest.importorskip("torch")
    if form == "folder":
        model.save_pretrained(tmp_path)
    else:
        write_model(
            tmp_path / "m.gguf", architecture, tensors_of(model), packed=False,
            context_length=64, pooling_type=1,
            **{"attention.head_count_kv": HEADS, "rope.freq_base": 1000.0,
               "attention.layer_norm_epsilon": 1e-12, "attention.causal": False},
        )  # fmt: skip
    path = tmp_path if form == "folder" else tmp_path / "m.gguf"
    backend = "c" if form == "folder" else "llvm"
    ours = load_embedding(path, pooling="mean", backend=backend, threads=1)
    for count in (20, 1):
        tokens = np.random.default_rng(count).integers(0, VOCABULARY, count)
        with torch.no_grad():
            theirs = model(torch.tensor(tokens[None])).last_hidden_state[0].numpy()
        assert np.abs(ours.rows(tokens) - theirs).max() < 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize("form", ["gguf", "folder"])
def test_scores_are_those_of_transformers(form: str, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    transformers = import_transformers()
    torch.manual_seed(0)
    config = transformers.BertConfig(**COMMON, num_labels=1, attn_implementation="eager")
    model = transformers.BertForSequenceClassification(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    path = tmp_path
    if form == "folder":
        model.save_pretrained(tmp_path)
    else:
        head = {
            "cls": model.bert.pooler.dense, "cls.output": model.classifier,
        }  # fmt: skip
        tensors = tensors_of(model.bert) | {
            f"{name}.{ending}": getattr(layer, ending).detach().numpy()
            for name, layer in head.items()
            for ending in ("weight", "bias")
        }
        path = write_model(
            tmp_path / "m.gguf", "bert", tensors, packed=False, context_length=64, pooling_type=4,
            **{"attention.head_count_kv": HEADS, "attention.layer_norm_epsilon": 1e-12,
               "attention.causal": False},
        )  # fmt: skip
    ours = load_embedding(path, threads=1)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 20).tolist()
    for first in (7, 12):
        types = [0] * first + [1] * (20 - first)
        with torch.no_grad():
            given = torch.tensor([tokens]), None, torch.tensor([types])
            theirs = float(model(*given).logits[0, 0])
        assert abs(ours.score(tokens, types) - theirs) < 1e-5 * max(1, abs(theirs))
    with pytest.raises(InputError, match="has the pooling 'rank', not mean or cls or last"):
        ours.embed("a")


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "aff", "able", "▁able", "▁a", "▁!", "▁strasse",
         "▁日", "s"]  # fmt: skip


def embedding_file(
    path: Path, more: Mapping[str, Any] | None = None, *, words: Sequence[str] = ()
) -> Path:
    """Write a decoder that embeds texts; `words` are tokens, too."""
    weights = random_weights()
    keys = {
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": [*WORDS, *words],
        "tokenizer.ggml.seperator_token_id": 3, "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 1, "general.architecture": "qwen3", **(more or {}),
    }  # fmt: skip
    own = {
        "block_count": LAYERS, "embedding_length": HIDDEN, "feed_forward_length": WIDE,
        "attention.head_count": HEADS, "attention.head_count_kv": 2, "attention.key_length": 16,
        "context_length": 32, "attention.layer_norm_rms_epsilon": 1e-5, "pooling_type": 3,
    }  # fmt: skip
    own_keys = {f"qwen3.{key}": value for key, value in own.items()}
    tensors = {name: f32(value) for name, value in weights.items()}
    path.write_bytes(gguf_file(own_keys | keys, tensors))
    return path


def test_words_are_cut_into_the_longest_pieces(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    tokenizer = TextTokenizer.of(read(embedding_file(tmp_path / "m.gguf")))
    texts = {
        "unaffable": [4, 5, 6], "UNAFFABLE!": [4, 5, 6, 9], "Ábles": [7, 12], "a日a": [8, 11, 8],
        "b": [1], "": [], "  able\tun ": [7, 4],
    }  # fmt: skip
    for text, expected in texts.items():
        assert tokenizer.encode_whole(text) == [2, *expected, 3]
    assert tokenizer.decode([4, 5, 6, 9]) == "unaffable !"
    cased = ["<s>", "</s>", "<unk>", "▁A", "a"]
    own = {"tokens": cased, "cls_token_id": 0, "seperator_token_id": 1, "unknown_token_id": 2}
    path = embedding_file(
        tmp_path / "n.gguf", {f"tokenizer.ggml.{key}": value for key, value in own.items()}
    )
    assert TextTokenizer.of(read(path)).encode_whole("Aa a") == [0, 3, 4, 2, 1]


def test_word_pieces_without_an_unknown_one_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "m.gguf"
    keys = {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": ["▁a", "[CLS]"]}
    path.write_bytes(gguf_file(keys, {}))
    with pytest.raises(FormatError, match=r"lacks \[UNK\]"):
        TextTokenizer.of(read(path))


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_decoders_have_embeddings(pooling: Any, tmp_path: Path) -> None:
    """Vectors of texts together are those of each alone, of length 1, pooled from the rows."""
    pytest.importorskip("tokenizers")
    model = load_embedding(embedding_file(tmp_path / "m.gguf"), pooling=pooling, threads=1)
    found = model.embed(["a able!", "un"])
    np.testing.assert_array_equal(found[1], model.embed("un")[0])
    np.testing.assert_allclose((found * found).sum(axis=1), 1, rtol=1e-5)
    rows = model.rows([2, 8, 7, 9, 3])
    pooled = {"mean": rows.mean(axis=0), "cls": rows[0], "last": rows[-1]}[pooling]
    plain = model.embed("a able!", normalize=False)[0]
    np.testing.assert_allclose(plain, pooled, rtol=1e-5, atol=1e-6)


def test_what_is_no_embedding_is_refused(tmp_path: Path) -> None:
    path = embedding_file(tmp_path / "m.gguf")
    assert load_embedding(path).pooling == "last"
    with pytest.raises(InputError, match="a text of 33 tokens; the context has 32"):
        load_embedding(path).rows([1] * 33)
    with pytest.raises(InputError, match="there is no pooling 'max'"):
        load_embedding(path, pooling="max")  # type: ignore[arg-type]
    unsaid = write_model(tmp_path / "u.gguf", "qwen3", random_weights(), packed=False)
    with pytest.raises(InputError, match="does not say how rows are pooled"):
        load_embedding(unsaid)
    other = embedding_file(tmp_path / "o.gguf", {"qwen3.pooling_type": 7})
    with pytest.raises(InputError, match="there is no pooling '7'"):
        load_embedding(other)
    with pytest.raises(UnsupportedError, match="is not an encoder with a classifier"):
        load_embedding(path, pooling="rank")
    encoder = embedding_file(tmp_path / "e.gguf", {"qwen3.attention.causal": False})
    with pytest.raises(UnsupportedError, match="generates no text"):
        load(encoder)


def test_rows_that_are_not_pooled_stay(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = embedding_file(tmp_path / "m.gguf", {"qwen3.pooling_type": 0})
    model = load_embedding(path, threads=1)
    assert model.pooling == "none"
    rows = model.rows(model.tokenizer.encode_whole("a able!"))
    np.testing.assert_array_equal(
        rows[-1], load_embedding(path, pooling="last").pooled([2, 8, 7, 9, 3])
    )
    with pytest.raises(InputError, match="has the pooling 'none'"):
        model.embed("a")
    with pytest.raises(InputError, match="has the pooling 'none', not rank"):
        model.scores("a", ["b"])


def test_pairs_are_cut_like_texts(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    tokenizer = TextTokenizer.of(read(embedding_file(tmp_path / "m.gguf")))
    assert tokenizer.encode_pair("able", "a!") == ([2, 7, 3, 8, 9, 3], [0, 0, 0, 1, 1, 1])


def test_folders_of_sentence_transformers_say_their_pooling(tmp_path: Path) -> None:
    from tests.language.folder import write_folder

    folder = write_folder(tmp_path, random_weights())
    (folder / "1_Pooling").mkdir()
    settings = folder / "1_Pooling" / "config.json"
    settings.write_text(
        json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    assert load_embedding(folder).pooling == "cls"
    for names in (["weightedmean_tokens"], ["cls_token", "mean_tokens"]):
        settings.write_text(json.dumps({f"pooling_mode_{name}": True for name in names}))
        with pytest.raises(InputError, match="there is no pooling"):
            load_embedding(folder)
    settings.write_text("[]")
    with pytest.raises(FormatError, match="is no JSON object"):
        load_embedding(folder)

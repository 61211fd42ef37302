"""Folders of safetensors give the models that GGUF files and transformers give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
from rlx.errors import FormatError, InputError, RlxError, UnsupportedError
from rlx.language import checkpoint
from rlx.language.config import DecoderConfig
from rlx.language.decoder import sequence_logits
from rlx.language.model import load
from rlx.language.tokenizer import TextTokenizer
from tests.language.folder import CONFIG, load_file, save_file, write_folder
from tests.language.test_architectures import CASES, COMMON, LONG, SHORT, rope
from tests.language.tiny import VOCABULARY, random_weights, write_model
from tests.transformers_library import import_transformers

Array = NDArray[Any]

FOLDERS = CASES | {
    "olmo3": (
        "Olmo3",
        {"sliding_window": 8, "num_hidden_layers": 4,
         "rope_parameters": {
             "full_attention": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                "original_max_position_embeddings": 32},
             "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}, {},
    ),
    "mistral": ("Mistral", {"sliding_window": 8}, {}),
    "qwen2_window": (
        "Qwen2", {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1}, {},
    ),
    "smollm3_layers": ("SmolLM3", {"no_rope_layers": [0, 1]}, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", FOLDERS)
def test_logits_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    transformers = import_transformers()
    kind, own, _ = FOLDERS[case]
    torch.manual_seed(0)
    of_text = f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config"
    config = getattr(transformers, of_text)(**COMMON | own, attn_implementation="eager")
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(tmp_path)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 20).astype(np.int32)
    with torch.no_grad():
        theirs = model(torch.tensor(tokens[None].astype(np.int64))).logits[0].numpy()
    ours = logits_of(checkpoint.read(tmp_path), tokens)
    assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max()


def logits_of(folder: checkpoint.Checkpoint, tokens: Array) -> Array:
    graph = rlx.Graph("sequence")
    logits, weights = sequence_logits(graph, folder, graph.input("t", (len(tokens),), "i32"), None)
    graph.set_outputs([logits])
    (found,) = rlx.compile(graph, params=weights.values, backend="reference")(tokens)
    return np.asarray(found)


@pytest.mark.slow
@pytest.mark.parametrize("quantize", [None, "q8_0"])
def test_texts_are_those_of_the_same_gguf_file(quantize: str | None, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    weights = random_weights()
    file = write_model(tmp_path / "m.gguf", "llama", weights, packed=quantize is not None)
    folder = write_folder(tmp_path / "m", weights)
    models = [load(file, context=64), load(folder, context=64, quantize=quantize)]
    texts = []
    for model in models:
        tokens = list(model.generate(model.tokenizer.encode("abc"), max_tokens=12, stop=()))
        texts.append((tokens, model.logits.tobytes()))
    assert texts[0] == texts[1]


def test_types_and_shards(tmp_path: Path) -> None:
    """Weights in 16 bits, in two files by an index, are the rounded ones."""
    weights = random_weights()
    folder = write_folder(tmp_path, weights)
    whole = load_file(folder / "model.safetensors")
    halves = {name: value.astype(np.float16) for name, value in whole.items()}
    names = sorted(halves)
    parts = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, own in parts.items():
        save_file({name: halves[name] for name in own}, folder / file)
    (folder / "model.safetensors").unlink()
    places = {name: file for file, own in parts.items() for name in own}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    read = checkpoint.read(folder)
    name = "blk.1.ffn_down.weight"
    expected = weights[name].astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(read.dequant_f32(name), expected)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(places, "../a.safetensors")}))
    with pytest.raises(FormatError, match="weight_map"):
        checkpoint.read(folder)


def test_rows_that_are_no_whole_blocks(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, random_weights())
    kinds = {n: checkpoint.read(folder, quantize="q4_k").element_type(n).name
             for n in ("blk.0.ffn_up.weight", "blk.0.ffn_norm.weight")}  # fmt: skip
    assert kinds == {"blk.0.ffn_up.weight": "q8_0", "blk.0.ffn_norm.weight": "f32"}
    with pytest.raises(InputError, match="are not packed as 'iq1_s'"):
        checkpoint.read(folder, quantize="iq1_s")


ROPES: dict[str, dict[str, Any]] = {
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32},
    "linear": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
    "longrope": {"long_factor": LONG, "short_factor": SHORT,
                 "original_max_position_embeddings": 16},
}  # fmt: skip


@pytest.mark.parametrize("kind", ROPES)
def test_older_configs_give_the_same_rope(kind: str, tmp_path: Path) -> None:
    """`rope_theta` and `rope_scaling`, with `type`, are what `rope_parameters` has since."""
    folder = write_folder(tmp_path, random_weights(), **rope(kind, **ROPES[kind]))
    newer = checkpoint.read(folder)
    older = dict(CONFIG, rope_scaling={"type": kind, **ROPES[kind]})
    (folder / "config.json").write_text(json.dumps(older))
    found = checkpoint.read(folder)
    assert DecoderConfig.of(found) == DecoderConfig.of(newer)
    assert found.tensors == newer.tensors


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"model_type": "gpt_neox"}, UnsupportedError, "model_type 'gpt_neox'"),
        ({"hidden_act": "gelu"}, UnsupportedError, "activation 'gelu'"),
        ({"quantization_config": {"quant_method": "gptq"}}, UnsupportedError, "gptq"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, UnsupportedError, "dynamic"),
        ({"layer_types": ["linear_attention"] * 2, "sliding_window": 8}, UnsupportedError,
         "linear_attention"),
        ({"num_hidden_layers": None}, FormatError, "key 'num_hidden_layers' is None"),
        ({"num_key_value_heads": 3}, FormatError, "key 'num_key_value_heads' is 3"),
        ({"head_dim": 32}, FormatError, "key 'head_dim' is 32"),
        ({"rope_theta": None}, FormatError, "key 'rope_theta' is None"),
    ],
)  # fmt: skip
def test_refused_configs(
    changed: dict[str, Any], error: type[RlxError], match: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path, random_weights(), **changed)
    with pytest.raises(error, match=match):
        DecoderConfig.of(checkpoint.read(folder))


def test_tensors_of_no_decoder_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, random_weights())
    tensors = load_file(folder / "model.safetensors")
    mixer = {"model.layers.0.mixer.conv1d.weight": np.zeros((4, 4), np.float32)}
    save_file(tensors | mixer, folder / "model.safetensors")
    with pytest.raises(UnsupportedError, match=r"conv1d.weight' is of no decoder"):
        checkpoint.read(folder)
    codes = {"model.layers.0.self_attn.q_proj.weight": np.zeros((64, 64), np.int8)}
    save_file(tensors | codes, folder / "model.safetensors")
    with pytest.raises(UnsupportedError, match="weights are F32"):
        checkpoint.read(folder)


STRANGE: list[Any] = [
    None, True, -1, 0, 3, 2**70, 1e40, "x", [], [1], [[]], {}, {"x": 1}, float("nan"),
]  # fmt: skip


def test_strange_settings_raise_no_other_errors(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, random_weights())
    keys = [
        *CONFIG, "rope_scaling", "rope_parameters", "layer_types", "sliding_window",
        "use_sliding_window", "max_window_layers", "partial_rotary_factor", "no_rope_layers",
        "query_pre_attn_scalar", "num_experts", "rope_local_base_freq", "text_config",
    ]  # fmt: skip
    scaled = [{"type": kind, **ROPES[kind], name: value} for kind in ROPES
              for name in ROPES[kind] for value in STRANGE[2:6]]  # fmt: skip
    changed = [{key: value, "sliding_window": 8} for key in keys for value in STRANGE]
    for change in [*changed, *({"rope_scaling": value} for value in scaled)]:
        (folder / "config.json").write_text(json.dumps(CONFIG | change))
        try:
            DecoderConfig.of(checkpoint.read(folder))
        except RlxError:
            continue


def test_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    folder = write_folder(tmp_path, random_weights())
    tokenizer = TextTokenizer.of(checkpoint.read(folder))
    tokens = tokenizer.encode("ab c</s>")
    assert tokens == [3, 4, 2, 5, 1]
    assert tokenizer.decode(tokens) == "ab c"
    assert tokenizer.chat([{"role": "user", "content": "ab"}]) == [3, 4]
    assert tokenizer.end_tokens == {1}
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 5]}))
    (folder / "chat_template.jinja").write_text("{{ eos_token }}")
    tokenizer = TextTokenizer.of(checkpoint.read(folder))
    assert tokenizer.end_tokens == {1, 5}
    assert tokenizer.chat([]) == [1]
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(FormatError, match=r"tokenizer.json: the library"):
        TextTokenizer.of(checkpoint.read(folder))


def test_tokenizer_with_pieces_and_a_start(tmp_path: Path) -> None:
    """A post-processor adds the start; a space precedes texts, and is taken away again."""
    library: Any = pytest.importorskip("tokenizers")
    folder = write_folder(tmp_path, random_weights())
    pieces = ["<s>", "</s>", "<unk>", "▁", "a", "b", "▁a"]
    made = library.Tokenizer(
        library.models.BPE(
            vocab={piece: number for number, piece in enumerate(pieces)}, merges=[("▁", "a")],
            unk_token="<unk>", byte_fallback=True,
        )
    )  # fmt: skip
    made.normalizer = library.normalizers.Sequence(
        [library.normalizers.Prepend("▁"), library.normalizers.Replace(" ", "▁")]
    )
    decoders = library.decoders
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    made.post_processor = library.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    made.add_special_tokens(["<s>", "</s>"])
    made.save(str(folder / "tokenizer.json"))
    tokenizer = TextTokenizer.of(checkpoint.read(folder))
    tokens = tokenizer.encode("ab a")
    assert tokens == [0, 6, 5, 6]
    assert tokenizer.decode(tokens) == "ab a"


@pytest.mark.slow
def test_a_conversation_reads_what_is_new(tmp_path: Path) -> None:
    """What is kept of a history gives the texts of a model that begins anew."""
    folder = write_folder(tmp_path, random_weights())
    model, other = load(folder, context=64), load(folder, context=64)
    first = list(model.generate([3, 4, 5, 6], max_tokens=8, stop=()))
    branches = ([3, 4, 5, 6, *first[:3], 9], [3, 4, 7, 8], [3, 4, 7, 8], [9])
    for tokens, left in zip(branches, (1, 2, 1, 1), strict=True):
        rest = model.keep_common(tokens)
        assert len(rest) == left
        other.reset()
        fresh = list(other.generate(tokens, max_tokens=6, stop=()))
        assert list(model.generate(rest, max_tokens=6, stop=())) == fresh
        np.testing.assert_allclose(model.logits, other.logits, rtol=1e-4, atol=1e-5)

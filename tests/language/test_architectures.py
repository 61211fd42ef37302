"""Every architecture computes what transformers' own model computes on the same weights."""

from __future__ import annotations

import functools
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import FormatError
from rlx.language.model import load
from tests.language.tiny import (
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    VOCABULARY,
    WIDE,
    random_weights,
    write_model,
)
from tests.transformers_library import import_transformers

Array = NDArray[Any]

COMMON = {
    "hidden_size": HIDDEN, "intermediate_size": WIDE, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
LONG, SHORT = ([1 + most * pair for pair in range(HEAD_DIM // 2)] for most in (0.5, 0.1))


def rope(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **parameters}}


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": False}, {}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}, {}),
    "qwen3": ("Qwen3", {"tie_word_embeddings": False}, {}),
    "gemma": ("Gemma", {"hidden_activation": "gelu_pytorch_tanh"}, {}),
    "phi3": ("Phi3", {"tie_word_embeddings": False}, {}),
    "phi3_window": (
        "Phi3", {"tie_word_embeddings": False, "sliding_window": 8},
        {"attention.sliding_window": 8},
    ),
    "qwen3moe": (
        "Qwen3Moe",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": WIDE,
         "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []},
        {"expert_count": 4, "expert_used_count": 2},
    ),
    "llama_linear": (
        "Llama", {"tie_word_embeddings": True, **rope("linear", factor=4.0)},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "qwen2_yarn": (
        "Qwen2", {"tie_word_embeddings": False,
                  **rope("yarn", factor=4.0, original_max_position_embeddings=32)},
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
         "rope.scaling.original_context_length": 32},
    ),
    "llama_3": (
        "Llama", {"tie_word_embeddings": True,
                  **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                         original_max_position_embeddings=32)}, {},
    ),
    "phi3_longrope": (
        "Phi3", {"tie_word_embeddings": False, "original_max_position_embeddings": 16,
                 **rope("longrope", long_factor=LONG, short_factor=SHORT,
                        original_max_position_embeddings=16)},
        {"rope.scaling.original_context_length": 16,
         "rope.scaling.attn_factor": math.sqrt(1 + math.log(128 / 16) / math.log(16))},
    ),
    "llama_mixture": (
        "Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2},
        {"expert_count": 4, "expert_used_count": 2},
    ),
    "gemma2": (
        "Gemma2",
        {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 8, "query_pre_attn_scalar": 16,
         "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
        {"attention.sliding_window": 8, "attn_logit_softcapping": 2.0,
         "final_logit_softcapping": 3.0},
    ),
    "gemma3": (
        "Gemma3",
        {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 8, "num_hidden_layers": 6,
         "query_pre_attn_scalar": 16,
         "rope_parameters": {
             "full_attention": {"rope_type": "linear", "rope_theta": 50000.0, "factor": 4.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
        {"block_count": 6, "attention.sliding_window": 8, "rope.freq_base": 50000.0,
         "rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "granite": (
        "Granite",
        {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.2,
         "logits_scaling": 5.0},
        {"embedding_scale": 3.0, "residual_scale": 0.4, "attention.scale": 0.2,
         "logit_scale": 5.0},
    ),
    "olmo2": ("Olmo2", {}, {}),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 4}, {"block_count": 4}),
    "glm4": (
        "Glm4",
        {"attention_bias": True,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                             "partial_rotary_factor": 0.5}},
        {"rope.dimension_count": HEAD_DIM // 2},
    ),
    "mistral3": (
        "Ministral3",
        rope("yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=32.0,
             beta_slow=1.0, llama_4_scaling_beta=0.1),
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
         "rope.scaling.original_context_length": 8, "attention.temperature_scale": 0.1},
    ),
    "qwen2moe": (
        "Qwen2Moe",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": WIDE,
         "shared_expert_intermediate_size": 32, "norm_topk_prob": False, "mlp_only_layers": []},
        {"expert_count": 4, "expert_used_count": 2},
    ),
    "olmoe": (
        "Olmoe", {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False},
        {"expert_count": 4, "expert_used_count": 2},
    ),
}  # fmt: skip
NORM_AFTER_ATTENTION = ("gemma2", "gemma3", "olmo2")
"""Where `post_attention_layernorm` is just that, and not the norm before the next network."""
INTERLEAVED = ("llama", "granite", "smollm3", "mistral3")
"""What files have in another order than transformers."""
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_up_proj": "ffn_up", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm", "post_mlp_layernorm": "post_ffw_norm",
    "post_self_attn_layernorm": "post_attention_norm",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}  # fmt: skip


def renamed(name: str) -> str:
    """Return what GGUF files call a parameter of transformers' models."""
    name, _, kind = name.rpartition(".")
    prefix = ""
    if name.startswith("model.layers."):
        _, _, number, name = name.split(".", 3)
        prefix = f"blk.{number}."
    return f"{prefix}{NAMES[name]}.{kind}"


def interleaved(rows: Array, heads: int) -> Array:
    """Put rows in the order in which files of llamas have them."""
    halves = rows.reshape(heads, 2, -1, rows.shape[-1])
    return np.swapaxes(halves, 1, 2).reshape(rows.shape)


def tensors_of(architecture: str, model: Any) -> dict[str, Array]:
    """Return a model's parameters as a file has them."""
    found: dict[str, Array] = {}
    for name, parameter in model.state_dict().items():
        value = parameter.detach().numpy().astype(np.float32)
        if ".mlp.experts." in name:
            layer, kind = name.split(".")[2], name.rsplit(".", 1)[-1]
            if kind == "gate_up_proj":
                gate, up = np.split(value, 2, axis=1)
                found[f"blk.{layer}.ffn_gate_exps.weight"] = gate
                found[f"blk.{layer}.ffn_up_exps.weight"] = up
            else:
                found[f"blk.{layer}.ffn_down_exps.weight"] = value
            continue
        own = renamed(name)
        if architecture in NORM_AFTER_ATTENTION and ".post_attention_layernorm." in name:
            own = own.replace("ffn_norm", "post_attention_norm")
        if architecture in INTERLEAVED and own.endswith(("attn_q.weight", "attn_k.weight")):
            value = interleaved(value, HEADS if "attn_q" in own else KV_HEADS)
        if architecture.startswith("gemma") and own.endswith("norm.weight"):
            value = value + 1
        if own.endswith("ffn_gate_inp_shexp.weight"):
            value = value[0]
        found[own] = value
    if model.config.tie_word_embeddings:
        found.pop("output.weight", None)
    return found | factors_of(model)


def factors_of(model: Any) -> dict[str, Array]:
    """Return what frequencies are divided by, where a file has that in tensors."""
    scaling = model.config.rope_parameters
    if "rope_type" not in scaling:
        return {}
    pairs = np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2)
    if scaling["rope_type"] == "llama3":
        turned = model.model.rotary_emb.inv_freq.numpy()
        return {"rope_freqs.weight": (10000.0**-pairs / turned).astype(np.float32)}
    if scaling["rope_type"] == "longrope":
        return {
            f"rope_factors_{name}.weight": np.array(scaling[f"{name}_factor"], np.float32)
            for name in ("long", "short")
        }
    return {}


@pytest.mark.parametrize("architecture", CASES)
def test_logits_are_those_of_transformers(architecture: str, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    transformers = import_transformers()
    kind, own, more = CASES[architecture]
    architecture = architecture.partition("_")[0]
    torch.manual_seed(0)
    of_text = f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config"
    config = getattr(transformers, of_text)(**deepcopy(COMMON | own), attn_implementation="eager")
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    tensors = tensors_of(architecture, model)
    path = write_model(tmp_path / "m.gguf", architecture, tensors, packed=False, **more)
    tokens = [int(t) for t in np.random.default_rng(0).integers(0, VOCABULARY, 20)]
    ours = load(path, context=64, backend="llvm", threads=1)
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0].numpy()
    for end, fed in ((17, tokens[:17]), (18, tokens[17:18]), (20, tokens[18:20])):
        ours.feed(fed)
        error = np.abs(ours.logits[0] - theirs[end - 1]).max()
        assert error < 1e-4 * np.abs(theirs[end - 1]).max()


def test_capped_scores_and_logits(tmp_path: Path) -> None:
    """No model of these architectures caps; where metadata says so, all of them do as Gemma 2."""
    torch: Any = pytest.importorskip("torch")
    transformers = import_transformers()
    gemma2: Any = pytest.importorskip("transformers.models.gemma2.modeling_gemma2")
    capped = functools.partial(gemma2.eager_attention_forward, softcap=2.0)
    transformers.AttentionInterface.register("capped", capped)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**COMMON, attn_implementation="capped")
    transformers.AttentionMaskInterface.register(
        "capped", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["eager"]
    )
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    keys = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
    tensors = tensors_of("llama", model)
    path = write_model(tmp_path / "m.gguf", "llama", tensors, packed=False, **keys)
    tokens = [int(t) for t in np.random.default_rng(0).integers(0, VOCABULARY, 20)]
    ours = load(path, context=64, backend="llvm", threads=1)
    with torch.no_grad():
        plain = model(torch.tensor([tokens])).logits[0].numpy()
    expected = 3.0 * np.tanh(plain / 3.0)
    for end, fed in ((17, tokens[:17]), (18, tokens[17:18])):
        ours.feed(fed)
        np.testing.assert_allclose(ours.logits[0], expected[end - 1], atol=3e-4)


@pytest.mark.slow
def test_layers_may_have_their_own_heads_and_widths(tmp_path: Path) -> None:
    """Keys and values of a layer written out for each query head, and a wider network of zeros."""
    weights = random_weights()
    plain = load(write_model(tmp_path / "a.gguf", "qwen2", weights, packed=False), context=32)
    for part in ("attn_k", "attn_v"):
        heads = weights[f"blk.1.{part}.weight"].reshape(KV_HEADS, HEAD_DIM, HIDDEN)
        repeated = np.repeat(heads, HEADS // KV_HEADS, axis=0)
        weights[f"blk.1.{part}.weight"] = repeated.reshape(-1, HIDDEN)
    for part, axis in (("gate", 0), ("up", 0), ("down", 1)):
        name = f"blk.1.ffn_{part}.weight"
        weights[name] = np.concatenate([weights[name], 0 * weights[name]], axis=axis)
    keys = {
        "attention.head_count": [HEADS, HEADS], "attention.head_count_kv": [KV_HEADS, HEADS],
        "feed_forward_length": [WIDE, 2 * WIDE],
    }  # fmt: skip
    path = write_model(tmp_path / "b.gguf", "qwen2", weights, packed=False, **keys)
    varied = load(path, context=32)
    for model in (plain, varied):
        model.feed([1, 2, 3])
        model.feed([4])
    np.testing.assert_allclose(varied.logits, plain.logits, rtol=1e-4, atol=1e-4)
    short = write_model(
        tmp_path / "c.gguf", "qwen2", weights, packed=False, **{"attention.head_count_kv": [2]}
    )
    with pytest.raises(FormatError, match="a whole number for each of 2 layers"):
        load(short)

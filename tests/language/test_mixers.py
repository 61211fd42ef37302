"""Architectures with other mixers than plain attention compute what transformers' models do."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import RlxError
from rlx.gguf.header import TensorInfo
from rlx.language import checkpoint
from rlx.language.checkpoint_table import translated
from rlx.language.config import DecoderConfig
from rlx.language.embedding import load_embedding
from rlx.language.model import load
from rlx.language.text import Text
from tests.language.test_architectures import COMMON, rope
from tests.language.tiny import HEADS, KV_HEADS, VOCABULARY, WIDE, write_model
from tests.transformers_library import import_transformers

Array = NDArray[Any]

EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {
    "kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
    "n_shared_experts": 2, "first_k_dense_replace": 1, "num_key_value_heads": HEADS,
    "head_dim": 8, **EXPERTS,
}  # fmt: skip
OF_LATENT = {
    "attention.key_length": 32, "attention.key_length_mla": 24, "attention.value_length": 24,
    "attention.value_length_mla": 12, "attention.kv_lora_rank": 24, "rope.dimension_count": 8,
    "attention.head_count_kv": 1, "expert_count": 8, "expert_used_count": 2,
    "expert_feed_forward_length": 32,
}  # fmt: skip
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=8, beta_fast=32.0, beta_slow=1.0,
            mscale=0.707, mscale_all_dim=0.707)  # fmt: skip

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama4": (
        "Llama4",
        {"intermediate_size": 32, "intermediate_size_mlp": WIDE, "num_local_experts": 4,
         "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "num_hidden_layers": 4,
         "attention_chunk_size": 8, "floor_scale": 4, "attn_scale": 0.3,
         **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=32)},
        {"block_count": 4, "expert_count": 4, "expert_used_count": 1,
         "expert_feed_forward_length": 32, "interleave_moe_layer_step": 2,
         "attention.sliding_window": 8, "attention.temperature_length": 4,
         "attention.temperature_scale": 0.3},
    ),
    "llama4_two_experts": (
        "Llama4",
        {"intermediate_size": 32, "intermediate_size_mlp": WIDE, "num_local_experts": 128,
         "num_experts_per_tok": 2, "use_qk_norm": False, "attention_chunk_size": 128,
         "no_rope_layers": [1, 1], "num_hidden_layers": 2},
        {"expert_count": 128, "expert_used_count": 2, "expert_feed_forward_length": 32},
    ),
    "falcon-h1": (
        "FalconH1",
        {"mamba_d_ssm": 48, "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_n_groups": 2,
         "mamba_d_state": 12, "mamba_d_conv": 4, "mamba_chunk_size": 8,
         "lm_head_multiplier": 0.5, "embedding_multiplier": 3.0, "mlp_multipliers": [0.8, 0.3],
         "key_multiplier": 0.4, "attention_out_multiplier": 0.9, "attention_in_multiplier": 1.2,
         "ssm_multipliers": [0.35, 0.25, 0.18, 0.5, 0.31], "ssm_in_multiplier": 1.25,
         "ssm_out_multiplier": 0.24},
        {"ssm.time_step_rank": 6, "ssm.group_count": 2, "ssm.state_size": 12,
         "ssm.inner_size": 48, "ssm.conv_kernel": 4, "embedding_scale": 3.0, "logit_scale": 2.0,
         "attention.scale": 0.4 * 1.2 * 1.2 / 4},
    ),
    "falcon-h1_normed": (
        "FalconH1",
        {"mamba_d_ssm": None, "mamba_expand": 2, "mamba_n_heads": 8, "mamba_d_head": 16,
         "mamba_n_groups": 4, "mamba_d_state": 8, "mamba_rms_norm": True,
         "mamba_norm_before_gate": False, "tie_word_embeddings": True},
        {"ssm.time_step_rank": 8, "ssm.group_count": 4, "ssm.state_size": 8,
         "ssm.inner_size": 128, "ssm.conv_kernel": 4},
    ),
    "gpt-oss": (
        "GptOss",
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8,
         **rope("yarn", factor=4.0, original_max_position_embeddings=8, truncate=False,
                beta_fast=32.0, beta_slow=1.0)},
        {"expert_count": 4, "expert_used_count": 2, "attention.sliding_window": 8,
         "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
         "rope.scaling.original_context_length": 8},
    ),
    "deepseek2": (
        "DeepseekV2", {**LATENT, "n_routed_experts": 8, "q_lora_rank": None, **YARN},
        {**OF_LATENT, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
         "rope.scaling.original_context_length": 8,
         "rope.scaling.yarn_log_multiplier": 0.0707},
    ),
    "deepseek2_groups": (
        "DeepseekV2",
        {**LATENT, "n_routed_experts": 8, "q_lora_rank": 20, "n_group": 4, "topk_group": 2,
         "topk_method": "group_limited_greedy", "routed_scaling_factor": 3.0},
        {**OF_LATENT, "expert_group_count": 4, "expert_group_used_count": 2,
         "expert_weights_scale": 3.0, "attention.q_lora_rank": 20},
    ),
    "deepseek2_v3": (
        "DeepseekV3",
        {**LATENT, "n_routed_experts": 8, "q_lora_rank": 20, "n_group": 4, "topk_group": 2},
        {**OF_LATENT, "expert_group_count": 4, "expert_group_used_count": 2,
         "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2},
    ),
    "lfm2": (
        "Lfm2",
        {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"],
         "norm_eps": 1e-5, "block_multiple_of": 32},
        {"block_count": 3, "feed_forward_length": 64,
         "attention.head_count_kv": [0, KV_HEADS, 0], "shortconv.l_cache": 3},
    ),
    "mamba2": (
        "Mamba2",
        {"num_heads": 8, "head_dim": 16, "state_size": 12, "n_groups": 2, "conv_kernel": 4,
         "num_attention_heads": None, "num_key_value_heads": None, "intermediate_size": None},
        {"attention.head_count": 0, "attention.head_count_kv": 0, "feed_forward_length": 0,
         "ssm.time_step_rank": 8, "ssm.group_count": 2, "ssm.state_size": 12,
         "ssm.inner_size": 128, "ssm.conv_kernel": 4},
    ),
    "qwen3next": (
        "Qwen3Next",
        {"layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2,
         "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
         "num_experts": 4, "shared_expert_intermediate_size": 24, **EXPERTS,
         **rope("default", partial_rotary_factor=0.25)},
        {"ssm.time_step_rank": 4, "ssm.group_count": 2, "ssm.state_size": 8,
         "ssm.inner_size": 32, "ssm.conv_kernel": 4, "rope.dimension_count": 4,
         "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32},
    ),
}  # fmt: skip


def folder_of(case: str, path: Path) -> Any:
    """Save a model with random weights, and return it."""
    torch: Any = pytest.importorskip("torch")
    transformers = import_transformers()
    kind, own, _ = CASES[case]
    torch.manual_seed(0)
    of_text = f"{kind}TextConfig" if kind == "Llama4" else f"{kind}Config"
    config = getattr(transformers, of_text)(**deepcopy(COMMON | own), attn_implementation="eager")
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not name.endswith(("inv_freq", "mup_vector")):
            torch.nn.init.normal_(tensor, std=0.2)
    model.save_pretrained(path)
    return model


def file_of(case: str, folder: Path, path: Path) -> Path:
    """Write a folder's tensors as a GGUF file, by names of the package `gguf`."""
    architecture = case.partition("_")[0]
    read = checkpoint.read(folder)
    tensors = {name: read.dequant_f32(name) for name in read.tensors}
    require_names_of_gguf(architecture, tensors)
    return write_model(path, architecture, tensors, packed=False, **CASES[case][2])


def require_names_of_gguf(architecture: str, tensors: dict[str, Array]) -> None:
    constants: Any = pytest.importorskip("gguf.constants")
    (own,) = (kind for kind, name in constants.MODEL_ARCH_NAMES.items() if name == architecture)
    known = {constants.TENSOR_NAMES[kind] for kind in constants.MODEL_TENSORS[own]}
    for name in tensors:
        layer = name.split(".")[1] if name.startswith("blk.") else ""
        stem = name.replace(f"blk.{layer}.", "blk.{bid}.").removesuffix(".weight")
        assert stem.removesuffix(".bias") in known


@pytest.mark.parametrize("form", ["gguf", "folder"])
@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case: str, form: str, tmp_path: Path) -> None:
    """Also of a sequence in pieces: the second has the first one's state."""
    torch: Any = pytest.importorskip("torch")
    model = folder_of(case, tmp_path / "m")
    path = tmp_path / "m"
    if form == "gguf":
        path = file_of(case, path, tmp_path / "m.gguf")
    tokens = [int(t) for t in np.random.default_rng(0).integers(0, VOCABULARY, 20)]
    backend = "llvm" if form == "gguf" else "c"
    ours = load(path, context=64, backend=backend, threads=1)
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0].numpy()
    for again in range(2 if form == "gguf" else 1):
        for end, fed in ((17, tokens[:17]), (18, tokens[17:18]), (20, tokens[18:20])):
            ours.feed(fed)
            error = np.abs(ours.logits[0] - theirs[end - 1]).max()
            assert error < 1e-5 * np.abs(theirs[end - 1]).max(), (again, end)
        assert ours.keep_common(tokens[:9]) == tokens[0 if ours.config.recurrent else 8 : 9]
        ours.reset()


@pytest.mark.parametrize("quantize", [None, "q8_0"])
@pytest.mark.parametrize("case", ["llama4", *list(CASES)[2:]])
def test_weights_are_in_memory_once(case: str, quantize: str | None, tmp_path: Path) -> None:
    """Also where matrices are floats: steps read them as prompts do."""
    folder_of(case, tmp_path)
    model = load(tmp_path, context=64, threads=1, quantize=quantize)
    assert len({program.arena for program in model._programs}) == 1


def test_newer_files_of_qwen3_next_have_other_matrices(tmp_path: Path) -> None:
    """Queries, keys and values in one, the gate in another; rows of all tokens in one run."""
    torch: Any = pytest.importorskip("torch")
    model = folder_of("qwen3next", tmp_path)
    read = checkpoint.read(tmp_path)
    tensors = {name: read.dequant_f32(name) for name in read.tensors}
    by_head = np.split(tensors.pop("blk.0.ssm_in.weight").reshape(2, 48, -1), [8, 16, 32], axis=1)
    *parts, gate = (part.reshape(-1, part.shape[-1]) for part in by_head)
    tensors |= {"blk.0.attn_qkv.weight": np.concatenate(parts), "blk.0.attn_gate.weight": gate}
    require_names_of_gguf("qwen3next", tensors)
    keys = CASES["qwen3next"][2]
    path = write_model(tmp_path / "m.gguf", "qwen3next", tensors, packed=False, **keys)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 11)
    with torch.no_grad():
        theirs = model.model(torch.tensor(tokens[None])).last_hidden_state[0].numpy()
    ours = load_embedding(path, pooling="last", context=16, threads=1).rows(tokens)
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["llama4", "gpt-oss", "deepseek2", "lfm2", "mamba2", "falcon-h1", "qwen3next"]
)
def test_texts_of_a_batch_are_those_of_each_alone(case: str, tmp_path: Path) -> None:
    """In slots that other texts had before, too, and up to the end of the context."""
    folder_of(case, tmp_path)
    model = load(tmp_path, context=24, threads=1)
    rng = np.random.default_rng(1)
    prompts = [[int(t) for t in rng.integers(0, VOCABULARY, size)] for size in (2, 17, 7)]
    alone = []
    for prompt in prompts:
        model.reset()
        alone.append(list(model.generate(prompt, max_tokens=9, stop=())))
    assert model.generate_batch(prompts[:2], max_tokens=9, stop=()) == alone[:2]
    assert model.generate_batch(prompts[1:], max_tokens=9, stop=()) == alone[1:]
    batch = model._batch(2)
    first, second = (Text(list(prompt)) for prompt in prompts[:2])
    first.tokens.append(batch.read(0, first))
    second.tokens.append(batch.read(1, second))
    for _ in range(3):
        second.tokens.append(batch.advance({1: second})[1])
    for _ in range(3):
        for slot, token in batch.advance({0: first, 1: second}).items():
            [first, second][slot].tokens.append(token)
    assert first.tokens[2:] == alone[0][:4]
    assert second.tokens[17:] == alone[1][:7]


STRANGE: list[Any] = [None, True, -1, 0, 3, 2**70, 1e40, "x", [], [1], {"x": 1}, float("nan")]
SETTINGS: dict[str, dict[str, Any]] = {
    "llama4_text": {
        "intermediate_size_mlp": 96, "num_local_experts": 4, "attention_chunk_size": 8,
        "floor_scale": 4, "attn_scale": 0.3, "no_rope_layers": [1, 0], "use_qk_norm": True,
        "layer_types": ["chunked_attention", "full_attention"], "attn_temperature_tuning": True,
        "no_rope_layer_interval": 4,
    },
    "falcon_h1": {
        "mamba_d_ssm": 48, "mamba_n_heads": 6, "mamba_n_groups": 2, "mamba_d_state": 12,
        "mamba_expand": 2, "mamba_rms_norm": False, "mamba_norm_before_gate": False,
        "lm_head_multiplier": 0.5, "key_multiplier": 0.4, "ssm_multipliers": [0.5] * 5,
        "mlp_multipliers": [0.8, 0.3], "ssm_out_multiplier": 0.24, "projectors_bias": False,
        "attention_in_multiplier": 1.2,
    },
    "gpt_oss": {"sliding_window": 8, "num_local_experts": 4, "swiglu_limit": 7.0},
    "deepseek_v2": {**LATENT, "n_routed_experts": 8, "n_group": 4, "topk_group": 2,
                    "topk_method": "group_limited_greedy", "routed_scaling_factor": 3.0},
    "deepseek_v3": {**LATENT, "n_routed_experts": 8, "n_group": 4, "topk_group": 2,
                    "norm_topk_prob": True, "rope_interleave": True},
    "lfm2": {"layer_types": ["conv", "full_attention"], "norm_eps": 1e-5, "block_multiple_of": 32,
             "block_ffn_dim_multiplier": 1.0, "full_attn_idxs": [1], "conv_bias": False},
    "mamba2": {"num_heads": 8, "state_size": 12, "n_groups": 2, "layer_norm_epsilon": 1e-5,
               "time_step_limit": [0.0, math.inf]},
    "qwen3_next": {"layer_types": ["linear_attention", "full_attention"],
                   "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                   "linear_key_head_dim": 8, "linear_value_head_dim": 8},
}  # fmt: skip


@dataclass
class Head:
    """What a config is read of: metadata, and the table's shape."""

    metadata: Any
    key_names: Any
    path: str = "config.json"
    tensors: Any = field(
        default_factory=lambda: {
            "token_embd.weight": TensorInfo("", (64, VOCABULARY), 0, 0),
            "blk.0.shortconv.conv.weight": TensorInfo("", (3, 64), 0, 0),
        }
    )


@pytest.mark.parametrize("kind", SETTINGS)
def test_strange_settings_raise_no_other_errors(kind: str) -> None:
    whole = {**COMMON, "model_type": kind, **SETTINGS[kind]}
    changes = [{name: value} for name in {*whole} - {"model_type"} for value in (*STRANGE, 10**400)]
    for change in [{}, *changes]:
        try:
            found = translated(whole | change, "config.json")
            DecoderConfig.of(Head(found.metadata, found.names))  # type: ignore[arg-type]
        except RlxError:
            assert change, "the settings themselves are read"

"""The architectures that are decoders of one shape, and where each differs from a llama.

What a file says by its tensors is not in the table: norms before and after attention and the
feed-forward network, norms of q and k (of a head, or of all), biases, joined matrices, experts.
Names and defaults are those of llama.cpp's files.
"""

from __future__ import annotations

from rlx.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the name of an architecture implies where the metadata has no key for it."""

    interleaved_rope: bool = False
    """True if the file's rows of q and k pair even and odd elements of a head."""
    activation: str = "silu"
    """What the gate of the feed-forward network goes through."""
    scales_embeddings: bool = False
    """True if embeddings are multiplied by the root of their width."""
    window: int = 0
    """The tokens that a layer with a window attends to; 0 for all."""
    window_period: int = 1
    """Every so many layers one has no window: the last of them. 1: all layers have it, 0: none."""
    window_is_chunk: bool = False
    """True if positions are divided into chunks as long as the window, and tokens attend to those
    of their own; without chunks all layers have rope, and no temperature."""
    local_rope_base: float | None = None
    """The base of layers with a window, whose rope is not scaled then."""
    plain_rope_period: int = 0
    """Every so many layers one has no rope: the last of them. 0: all layers have it."""
    tempers_plain: bool = False
    """True if queries of layers without rope are multiplied by a temperature, and no others are."""
    attention_cap: float | None = None
    logit_cap: float | None = None
    scale_of_width_at: int | None = None
    """The number of layers at which scores are scaled by the hidden size over the heads."""
    shares_sum_to_1: bool = True
    """True if the shares of the chosen experts are divided by their sum."""
    weighs_inputs: bool = False
    """True if rows are multiplied by the sigmoids of their experts' scores before these."""
    ffn_norm: str = "ffn_norm"
    """The norm before the feed-forward network."""
    final_norm: str = "output_norm"
    """The norm after the last layer."""
    clamps_gates: bool = False
    """True if gates are cut, as gpt-oss does, and one is added to what they multiply."""
    yarn_scales_scores: bool = False
    """True if YaRN scales the scores of attention, and not cosines and sines."""
    yarn_truncates: bool = True
    """True if YaRN rounds the numbers of the pairs between which it interpolates."""
    attends: bool = True
    """False if layers have mixers alone: no attention, and no feed-forward networks."""
    is_causal: bool = True
    """False for encoders, whose tokens attend to all tokens of a text."""


ARCHITECTURES = {
    "llama": Architecture(interleaved_rope=True),
    "llama4": Architecture(
        interleaved_rope=True, plain_rope_period=4, window=8192, window_period=4,
        window_is_chunk=True, tempers_plain=True, weighs_inputs=True,
    ),
    "mistral3": Architecture(interleaved_rope=True),
    "granite": Architecture(interleaved_rope=True),

    "smollm3": Architecture(interleaved_rope=True, plain_rope_period=4),
    "glm4": Architecture(interleaved_rope=True),
    "qwen2": Architecture(),
    "qwen2moe": Architecture(shares_sum_to_1=False),
    "qwen3": Architecture(),
    "qwen3moe": Architecture(),
    "olmo2": Architecture(window_period=4),
    "olmoe": Architecture(shares_sum_to_1=False),
    "phi3": Architecture(),
    "gpt-oss": Architecture(
        window=128, window_period=2, ffn_norm="post_attention_norm", clamps_gates=True,
        yarn_truncates=False,
    ),
    "deepseek2": Architecture(
        interleaved_rope=True, shares_sum_to_1=False, yarn_scales_scores=True
    ),
    "mamba2": Architecture(attends=False),
    "falcon-h1": Architecture(),
    "qwen3next": Architecture(ffn_norm="post_attention_norm"),
    "lfm2": Architecture(final_norm="token_embd_norm"),
    "bert": Architecture(activation="gelu", plain_rope_period=1, is_causal=False),
    "nomic-bert": Architecture(is_causal=False),
    "gemma": Architecture(activation="gelu_approx", scales_embeddings=True),
    "gemma2": Architecture(
        activation="gelu_approx", scales_embeddings=True, window=4096, window_period=2,
        attention_cap=50.0, logit_cap=30.0, scale_of_width_at=46,
    ),
    "gemma3": Architecture(
        activation="gelu_approx", scales_embeddings=True, window_period=6,
        local_rope_base=10000.0, scale_of_width_at=62,
    ),
}  # fmt: skip

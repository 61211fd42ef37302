"""Blocks: functions that build common layers out of ops.

A block is a plain function of `Value`s. It appends primitive ops under a scope of its own
(`layer.0.attention.query`), so that printing and provenance say which block a node came from;
whether they run fused is decided by the passes, not by the block.
"""

from __future__ import annotations

from rlx.blocks.convolution import depthwise_conv1d_causal as depthwise_conv1d_causal
from rlx.blocks.dense import embedding as embedding
from rlx.blocks.dense import feed_forward as feed_forward
from rlx.blocks.dense import linear as linear
from rlx.blocks.dense import shared_linear_pair as shared_linear_pair
from rlx.blocks.dense import swiglu_ffn as swiglu_ffn
from rlx.blocks.packed import lora_matmul as lora_matmul
from rlx.blocks.packed import packed_attention as packed_attention
from rlx.blocks.packed import packed_swiglu as packed_swiglu
from rlx.blocks.packed import packed_transformer_layer as packed_transformer_layer
from rlx.blocks.prediction_head import MtpHeadWeights as MtpHeadWeights
from rlx.blocks.prediction_head import Norm as Norm
from rlx.blocks.prediction_head import qwen35_mtp_head as qwen35_mtp_head
from rlx.blocks.residual import residual_layer_norm as residual_layer_norm
from rlx.blocks.residual import residual_rms_norm as residual_rms_norm
from rlx.blocks.transformer import AttentionWeights as AttentionWeights
from rlx.blocks.transformer import EncoderLayerWeights as EncoderLayerWeights
from rlx.blocks.transformer import LlamaDecoderWeights as LlamaDecoderWeights
from rlx.blocks.transformer import llama_decoder_block as llama_decoder_block
from rlx.blocks.transformer import multi_head_attention as multi_head_attention
from rlx.blocks.transformer import transformer_encoder_layer as transformer_encoder_layer

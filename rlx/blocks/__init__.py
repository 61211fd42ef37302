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
from rlx.blocks.packed import nomic_layer as nomic_layer
from rlx.blocks.packed import packed_attention as packed_attention
from rlx.blocks.packed import packed_swiglu as packed_swiglu
from rlx.blocks.packed import packed_transformer_layer as packed_transformer_layer
from rlx.blocks.prediction_head import MtpHeadWeights as MtpHeadWeights
from rlx.blocks.prediction_head import Norm as Norm
from rlx.blocks.prediction_head import qwen35_mtp_head as qwen35_mtp_head
from rlx.blocks.residual import residual_layer_norm as residual_layer_norm
from rlx.blocks.residual import residual_rms_norm as residual_rms_norm
from rlx.blocks.spectra import bit_reverse as bit_reverse
from rlx.blocks.spectra import fft_conv1d as fft_conv1d
from rlx.blocks.spectra import fft_real as fft_real
from rlx.blocks.spectra import fft_scale as fft_scale
from rlx.blocks.spectra import ifft_spectrum as ifft_spectrum
from rlx.blocks.spectra import irfft as irfft
from rlx.blocks.spectra import next_pow2 as next_pow2
from rlx.blocks.spectra import pad_last_axis_to_pow2 as pad_last_axis_to_pow2
from rlx.blocks.spectra import psd as psd
from rlx.blocks.spectra import psd_real as psd_real
from rlx.blocks.spectra import rfft as rfft
from rlx.blocks.spectra import split_spectrum as split_spectrum
from rlx.blocks.spectra import stft as stft
from rlx.blocks.transformer import AttentionWeights as AttentionWeights
from rlx.blocks.transformer import EncoderLayerWeights as EncoderLayerWeights
from rlx.blocks.transformer import LlamaDecoderWeights as LlamaDecoderWeights
from rlx.blocks.transformer import llama_decoder_block as llama_decoder_block
from rlx.blocks.transformer import multi_head_attention as multi_head_attention
from rlx.blocks.transformer import transformer_encoder_layer as transformer_encoder_layer

"""Attention: rows of scores in lanes, or directly."""

from rlx.codegen.kernels.attention import attention as attention

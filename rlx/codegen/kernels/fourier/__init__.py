"""Fourier transforms by stages of small radices."""

from rlx.codegen.kernels.fourier import fourier as fourier

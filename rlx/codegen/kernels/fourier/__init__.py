"""Fourier transforms by stages of small radices."""

"""Attention: rows of scores in lanes, or directly."""

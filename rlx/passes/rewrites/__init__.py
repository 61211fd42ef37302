"""Rewrites of a graph that keep its meaning, whatever runs it."""

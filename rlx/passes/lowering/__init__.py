"""Passes that prepare a graph for planning and lowering."""

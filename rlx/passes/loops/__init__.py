"""Passes over loops, branches and their bodies."""

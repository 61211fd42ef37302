"""Passes over the loop language: functions from a kernel to an equal, better one.

Each keeps the rules of the grammar, which `pipeline.run_passes` verifies.
"""

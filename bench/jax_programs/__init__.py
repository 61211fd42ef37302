"""Programs as people publish them for JAX, each of which runs unchanged on rlx.

Each has `run()`, which returns a tree of numbers, and is a program that prints them.
"""

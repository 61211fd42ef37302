"""A fuzzer of whole programs: `python -m tests.fuzz --help`, or `make fuzz MINUTES=60`.

`generate` draws programs in NumPy's names, with loops and transformations; `check` compares what
the reference, LLVM, C (at several flags), exports and JAX make of them; `shrink` finds a program
that fails in the same way, and prints it as Python to paste into a test.
"""

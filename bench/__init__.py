"""The bench: rlx next to JAX, PyTorch, ONNX Runtime and OpenVINO, in one run.

    python -m bench                      all workloads against all peers
    python -m bench softmax 'matmul*'    some of them
    python -m bench 'loops.*'            programs with loops, next to JAX and straight C
    python -m bench --list

`workloads/` says what is computed, as graphs or as functions; `peers/` translates a graph into
each library's own terms; `bounds/` has the functions in straight C; `rounds` measures all peers
in turns, each in a process of its own; `report` writes the tables to `results/`.

What is measured is the last tier of machine code (`RLX_WAIT`), but by `first_answer`.
"""

import os

os.environ.setdefault("RLX_WAIT", "1")

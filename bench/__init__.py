"""The bench: rlx beside JAX, PyTorch, ONNX Runtime and OpenVINO, in one run.

    python -m bench                      all workloads against all peers
    python -m bench softmax 'matmul*'    some of them
    python -m bench --list

`workloads/` says what is computed, as graphs; `peers/` translates a graph into each library's
own terms; `rounds` measures all peers in turns, each in a process of its own; `report` writes
the table to `results/`.
"""

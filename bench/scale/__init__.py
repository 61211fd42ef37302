"""What several ranks gain, and what the exchange between them costs.

    mpirun -n 2 python -m bench.scale [--write FILE]
    mpirun -n 2 python -m bench.scale.timeline
    mpirun -n 2 python -m bench.scale.overlap

The first measures training steps on one rank and on all, sums of several sizes next to mpi4py and
JAX, and prints what that means for more ranks. The second draws when sums begin and are awaited.
The third compiles the steps without the passes that make sums begin early.
"""

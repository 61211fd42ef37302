"""Parts of arrays: shapes and memory."""

from __future__ import annotations

import numpy as np

from rlx.distributed import Mesh, P, simulate
from rlx.distributed.sharding import local_part


def test_parts_are_dense_and_keep_their_rank() -> None:
    x = np.arange(24.0).reshape(4, 6)

    def program() -> None:
        mesh = Mesh({"ranks": 2})
        column = local_part("x", x, P(None, "ranks"), mesh)
        assert column.flags.c_contiguous
        np.testing.assert_array_equal(column, np.split(x, 2, 1)[mesh.world.rank])
        assert local_part("x", np.array(3.0), P(), mesh).shape == ()

    simulate(program, 2)

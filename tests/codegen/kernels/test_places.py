"""Kernels that read and write at places from an operand stay inside of their operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import FormatError
from rlx.ir.parser import parse_graph
from rlx.runtime.compile import compile

MOST = np.iinfo(np.int32).max
WALK = """graph @walk {
  %0: i32[4, 3] = input "keys"
  %1: i32[8] = input "table"
  %2: i32[1] = input "starts"
  %3: i32[4, 3] = walk_trees %0, %1, %2 {trees = 2, width = 4}
  return %3
}"""
MOVE = """graph @move {
  %0: i64[6] = input "keys"
  %1: i32[2, 4] = input "starts"
  %2: i64[6] = radix_move %0, %1 {start = 0, bits = 2}
  return %2
}"""
RECORDS = {
    "column": (MOST, 10**8, 0, 0), "negative-column": (MOST, -(10**8), 0, 0),
    "child": (-10, 0, 4 * 10**8, 0), "negative-child": (-10, 0, -(4 * 10**8), 0),
    "tree": (MOST, 0, 0, 10**8), "negative-tree": (MOST, 0, 0, -(10**8)),
    "cycle": (MOST, 0, 4, 0),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("name", RECORDS)
def test_walks_of_any_table_end_and_stay_inside_of_it(name: str, backend: Any) -> None:
    run = compile(parse_graph(WALK), backend=backend)
    table = np.array([MOST, 0, 0, 2, *RECORDS[name]], np.int32)
    feeds = {"keys": np.zeros((4, 3), np.int32), "table": table}
    for start in (4, -(10**8), 10**8):
        (found,) = run.run({**feeds, "starts": np.array([start], np.int32)})
        assert set(found.ravel().tolist()) <= {0, 4}


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("start", [-(10**9), 6, 10**9])
def test_keys_are_moved_inside_of_the_result(start: int, backend: Any) -> None:
    run = compile(parse_graph(MOVE), backend=backend)
    starts = np.full((2, 4), start, np.int32)
    (found,) = run.run({"keys": np.arange(6), "starts": starts})
    assert found.shape == (6,)


def test_tables_have_whole_records_and_a_column() -> None:
    with pytest.raises(FormatError, match="multiple of 4"):
        parse_graph(WALK.replace("i32[8]", "i32[7]"))
    with pytest.raises(FormatError, match="columns"):
        parse_graph(WALK.replace("i32[4, 3] = input", "i32[4, 0] = input"))

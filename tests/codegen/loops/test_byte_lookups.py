"""What `lookup_bytes` means: a byte of a table for every byte of a word."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.codegen.loops.byte_lookups import expanded_lookup
from rlx.codegen.loops.evaluate import evaluate
from rlx.codegen.loops.expr import E, lookup_bytes
from rlx.codegen.loops.nodes import LookupBytes, Prim, ValueType, Var
from rlx.codegen.loops.printer import format_expression
from rlx.codegen.loops.verify_expressions import expression_faults
from rlx.errors import InternalError

TABLES = [
    list(range(255, 239, -1)),
    [7] * 16,
    [0] * 15 + [255],
    [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0],
]


def words(lanes: int = 16, prim: Prim = Prim.U32) -> E:
    return E(Var("x", ValueType(prim, lanes)), ValueType(prim, lanes))


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_arithmetic_on_words_finds_the_bytes_of_the_table(table: list[int]) -> None:
    node = lookup_bytes(table, words()).node
    assert isinstance(node, LookupBytes)
    places = np.random.default_rng(0).integers(0, 16, 64).astype(np.uint8)
    places[:16] = np.arange(16)
    scope = {"x": places.view("<u4").astype(np.uint32)}
    expected = np.array(table, np.uint8)[places].view("<u4")
    assert (evaluate(node, scope) == expected).all()
    assert (evaluate(expanded_lookup(node), scope) == expected).all()


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_a_byte_past_the_table_stops_the_interpreter(shift: int) -> None:
    node = lookup_bytes(range(16), words(1)).node
    with pytest.raises(InternalError, match="past a table of 16"):
        evaluate(node, {"x": np.array(16 << shift, np.uint32)})


def test_the_verifier_names_a_table_or_type_that_is_not_taken() -> None:
    assert not list(expression_faults(lookup_bytes(range(16), words()).node))
    (short,) = expression_faults(lookup_bytes(range(15), words()).node)
    assert "a table is 16 bytes" in short
    (large,) = expression_faults(lookup_bytes(range(241, 257), words()).node)
    assert "a table is 16 bytes" in large
    (signed,) = expression_faults(lookup_bytes(range(16), words(4, Prim.I32)).node)
    assert "lookup_bytes does not take i32x4" in signed


def test_a_lookup_is_printed_with_its_table() -> None:
    shown = format_expression(lookup_bytes(range(16), words(4)).node)
    assert shown == "lookup_bytes([0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], x)"

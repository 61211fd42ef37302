"""Arenas of ops, of drawn compositions, and of their gradients, tangents and batches.

Each has at most 3 times the bytes that the program reads, writes and must keep, or is listed here
with the reason.
"""

from __future__ import annotations

import pytest

from tests.passes.memory.arenas import MODES, derived, exceeds, large_graph
from tests.passes.memory.drawn_compositions import compositions, traced
from tests.records import OpRecord, records

_STAGES = "Each stage of a doubling keeps its operands: JAX's derivative at ties is their tree's."
_FACTORS = "LU factors, a mask and two triangular products of the size of the matrix."
_SQUARE = "The rectangle is padded to a square."
_DECODED = "The decoded rows of all experts; the operand has 4 to 8 bits per element."
_ROWS = "Scratch for each row, as rows run in parallel."
_WIDENED = "Bytes are packed and widened to i32."
_GATHERED = "A gather for each tap and its indices, in i64, before they are added up."
_SORTED = "Keys of Gaussians by tile, bounded by how many tiles one may cover."
ABOVE: dict[str, tuple[str, str]] = {
    "cummax": ("jvp", _STAGES),
    "cummin": ("jvp", _STAGES),
    "cumprod": ("jvp", _STAGES),
    "det": ("jvp vmap", _FACTORS),
    "eig": ("gradient", "Complex vectors, their inverse, and a product with each."),
    "fft": ("value", _ROWS),
    "gaussian_splat_rasterize": ("value", _SORTED),
    "gaussian_splat_render": ("gradient", _SORTED),
    "gaussian_splat_render_backward": ("value", _SORTED),
    "grouped_dequant_matmul": ("gradient", _DECODED),
    "int8_scaled_dequant_matmul": ("gradient jvp", "The decoded rows, from 8 bits per element."),
    "lu": ("gradient", _FACTORS),
    "qconv": ("value vmap", _WIDENED),
    "rectangular_lu": ("value gradient jvp vmap", _SQUARE),
    "resample": ("gradient jvp vmap", _GATHERED),
    "rfft": ("value", _ROWS),
    "slogdet": ("vmap", _FACTORS),
}
"""Ops whose arena is larger in these modes."""

MULTIPLES = {
    "expm": (9, "Its scaling squares up to 16 times, and a gradient keeps every square."),
    "cumulative_logsumexp": (5, "Stages of a doubling, of maxima and of sums."),
    "attended": (3.5, "The scores of 4 heads, of which each has a quarter of the columns."),
    "gammaln": (5, "A kernel of a product or sum computes a part of the formula, or both sums."),
    "digamma": (5, "As gammaln."),
    "erfinv": (4, "As gammaln."),
    "forces": (4, "Differences of all pairs."),
    "mixed": (4, "Both operands are stacked."),
}
"""What compositions of these functions may have, and why."""


def in_order() -> list[OpRecord]:
    """Return the first record of each op that has operands, in order."""
    firsts: dict[str, OpRecord] = {}
    for record in records():
        shapes = [operand.shape for operand in record.operands]
        if shapes and not any(0 in shape for shape in shapes):
            firsts.setdefault(record.op.name, record)
    return [*firsts.values()]


@pytest.mark.whole
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("record", in_order(), ids=lambda record: record.op.name)
def test_arena_of_an_op_is_a_small_multiple_of_what_it_reads_and_writes(
    record: OpRecord, mode: str
) -> None:
    graph = derived(large_graph(record), mode)
    above = mode in ABOVE.get(record.op.name, ("",))[0].split()
    if graph is not None:
        assert bool(found := exceeds(graph)) == above, found or "it is listed, and is not above"


@pytest.mark.whole
@pytest.mark.guarantee(
    "Compiling",
    "The arena of a derivative or batch has at most 3 times the bytes that it must hold, but for"
    " those listed.",
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", compositions(seed=0, count=200))
def test_arena_of_a_composition_is_a_small_multiple_of_what_it_keeps(text: str, mode: str) -> None:
    graph, kept = traced(text)
    program = derived(graph, mode)
    assert program is not None
    multiple = max([3.0, *(m for name, (m, _) in MULTIPLES.items() if f"{name}(" in text)])
    copies = {"vmap": 4, "jvp": 2}.get(mode, 1)
    assert not exceeds(program, kept * copies, multiple)

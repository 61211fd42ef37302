"""Typed reasons for the choice of a kernel: tiles, layouts, libraries."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

from rlx.dataclass import dataclass
from rlx.ir.graph import Node
from rlx.ir.lowering import Lowering


class Why(enum.Enum):
    """A sentence each; `{found}` is the value found, `{limit}` the threshold."""

    GIVEN = "the schedule that was given, or measured as the fastest"
    WIDENED = "multiplied in f32 and rounded once: there are no tiles of {found}"
    PAIRS = "pairs of bf16 are multiplied at once, and summed in f32: {found} has the instruction"
    SLOW_PAIRS = (
        "multiplied in f32 and rounded once: {found} is slow with pairs of bf16, which pay up to "
        "{limit} rows"
    )
    DTYPE = "plain loops: there are no tiles of {found}"
    NO_VECTORS = "plain loops: code for {found} has no vectors, which tiles are made of"
    ONE_TERM = "elementwise: every sum has one term"
    COLUMNS = "plain loops: b has {found} columns"
    BATCHES = "plain loops: a has batch axes {found} and b has {limit}"
    SMALL = "plain loops: {found} multiply-adds; packing pays from {limit} on"
    SMALL_WEIGHTS = "plain loops: b has {found} elements; packing weights pays from {limit} on"
    STREAMED = (
        "rows of b are streamed: it changes at every call and has {found} rows of a, up to {limit}"
    )
    IN_PLACE = "b is not packed: it changes at every call and has {found} rows of a, up to {limit}"
    ONE_PANEL = "b is not packed: its {found} columns are one panel already"
    PACKED_ONCE = "b is packed in setup: it depends on params and constants only"
    PACKED = "b is packed at every call: {found} multiply-adds; it pays from {limit} on"
    BLOCKS_IN_PLACE = "plain loops: the blocks change at every call, or there are no vectors"
    BLOCKS_STREAMED = "blocks are streamed, packed in setup: {found} rows of a, up to {limit}"
    BLOCKS_DECODED = (
        "blocks, packed in setup, are dequantized some at a time: {found} rows of a, over {limit}"
    )
    SYMBOLIC_WINDOW = "plain loops: channels and taps of {found} must be known"
    SINGLE_TAPS = "a matrix product: a window is one element of each channel"
    WHOLE_WINDOW = "a matrix product: the window is the whole image"
    FEW_CHANNELS = "plain loops: {found} output channels; vectors hold {limit} at least"
    DEPTHWISE = "rows in vectors, taps in registers: a group has {found} channel and gives {limit}"
    CHANNELS_LAST = "each channel is a group: vectors of {found} channels, elements read in place"
    TRANSFORMED = "Winograd's transforms: {found} products in place of {limit} per tile and channel"
    CONVOLVED = "register tiles: the cheapest that cover the result"
    QUERIES = "one pass over keys in tiles that suit the head"
    NO_QUERIES = "scores are stored: no tile fits {found}"
    LARGE_PRODUCT = "{found} multiply-adds: those of {limit} and more go to the library of blas="
    LARGE_SYSTEM = "{found} rows, from {limit} on a library is faster"
    SMALL_SYSTEM = "the generated kernel: {found} rows, below {limit} it is as fast as a library"
    NO_LIBRARY = "the generated kernel: {found} rows are many, and there is no library"

    def because(
        self, found: object = None, limit: object = None, lowering: Lowering | None = None
    ) -> Choice:
        """Return this reason with what was found, and what was chosen."""
        return Choice(self, found, limit, lowering)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a node, a record or the plain kernel, and why; `str` is the sentence."""

    why: Why
    found: object = None
    limit: object = None
    lowering: Lowering | None = None

    def __str__(self) -> str:
        return self.why.value.format(found=self.found, limit=self.limit)


ChoiceObserver: TypeAlias = Callable[[Node, Choice], None]
"""Called with every choice; nodes are those of the graph that the pass reads or makes."""


def no_layout(node: Node, choice: Choice) -> None:
    """Observe nothing."""

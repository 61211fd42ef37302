"""Typed reasons why a producer and a consumer are not fused, with a sentence each."""

from __future__ import annotations

import enum

from rlx.dataclass import dataclass
from rlx.ir.graph import Node


class Reason(enum.Enum):
    """A sentence each; `{found}` is the value found, `{limit}` the largest allowed."""

    SHAPES = "shapes differ: {found} is not {limit}, which the kernel computes"
    LONG_BODY = "the kernel would compute {found} nodes, of {limit} at most"
    MANY_VALUES = "the kernel would have {found} operands and results, of {limit} at most"
    BETWEEN = "a third kernel reads the one and feeds the other, or they are far apart"
    MOVED_RESULT = "the reader needs elements at other indices than its own"
    MOVED_OPERAND = "it reads an operand at another index, which kernels of {found} do not take"
    OTHER_READERS = "{found} kernels read the value: it is stored once"
    COSTLY = "{found} reads each element several times: costly work is computed once, before it"
    STORED_OPERANDS = "{found} reads its operands from memory: nothing is fused into its reads"
    OTHER_OPERAND = "{found} has only producers of its first operand fused into it"
    STORED_RESULT = "{found} writes its result to memory: nothing is fused into its stores"
    SHORT_ROWS = "{found} folds rows too short for vectors, and its readers are computed in vectors"
    LEFT_TO_READER = "it is computed in the kernel of {found}, which alone reads it"
    LATER_PRODUCT = "the later {found} adds it in its epilogue"
    IN_SETUP = "`setup` computes {found} once; every run would compute it again"
    TWO_ANCHORS = "they belong to two kernels, of {found} and of {limit}"
    ORDER = "an earlier fusion prevents it"

    def because(self, found: object = None, limit: object = None) -> Obstacle:
        """Return this reason with the value found and the limit."""
        return Obstacle(self, found, limit)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason with its facts; `str` is the sentence."""

    reason: Reason
    found: object = None
    limit: object = None

    def __str__(self) -> str:
        return self.reason.value.format(found=self.found, limit=self.limit)


@dataclass(frozen=True, slots=True)
class MissedFusion:
    """A value that is stored by one kernel and read by another, and why."""

    producer: Node
    consumer: Node
    obstacle: Obstacle

    @property
    def ops(self) -> tuple[str, str]:
        """Names of the ops of producer and consumer."""
        return self.producer.op.name, self.consumer.op.name

    def __str__(self) -> str:
        ends = " -> ".join(_described(node) for node in (self.producer, self.consumer))
        return f"{ends}: {self.obstacle}"


def _described(node: Node) -> str:
    return node.op.name if node.source is None else f"{node.op.name} ({node.source})"

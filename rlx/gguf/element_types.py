"""What the tensors of GGUF files hold: plain numbers, or blocks."""

from __future__ import annotations

from rlx.dataclass import dataclass
from rlx.ir.block_types import BLOCK_TYPES, BlockType


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type of tensor: `size` bytes hold `elements` elements."""

    name: str
    elements: int
    size: int
    numpy: str | None = None
    """What NumPy calls a plain number; bf16 are the upper halves of f32."""
    blocks: BlockType | None = None


_PLAIN = {
    0: ("f32", "f4"), 1: ("f16", "f2"), 24: ("i8", "i1"), 25: ("i16", "i2"), 26: ("i32", "i4"),
    27: ("i64", "i8"), 28: ("f64", "f8"), 30: ("bf16", "u2"),
}  # fmt: skip

_UNREAD = {9: "q8_1", 41: "q1_0"}
"""Names of types that are known and not decoded: the first is for activations only."""

ELEMENT_TYPES: dict[int, ElementType] = {
    **{
        number: ElementType(name, 1, int(numpy[1]), numpy)
        for number, (name, numpy) in _PLAIN.items()
    },
    **{
        kind.number: ElementType(kind.name, kind.elements, kind.size, blocks=kind)
        for kind in BLOCK_TYPES.values()
    },
}
"""Types that can be read, by their number in files."""


def type_name(number: int) -> str:
    """Return the display name of a type."""
    if number in ELEMENT_TYPES:
        return ELEMENT_TYPES[number].name
    return _UNREAD.get(number, f"of number {number}")

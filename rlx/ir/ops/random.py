"""Counter-based generators of random bits: ops of a key and a counter, without any state.

Equal keys and counters give equal bits, on any number of threads and in any order. The
distributions over them (`rlx.random`) are formulas of other ops.
"""

from __future__ import annotations

from rlx.errors import GraphError
from rlx.ir.declaration import op
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.shape import broadcast_shapes
from rlx.ir.types import TensorType

_FAMILY = "random"


@op(_FAMILY, Trait.ELEMENTWISE, Trait.EXPENSIVE)
def threefry2x32(
    key0: TensorType, key1: TensorType, count0: TensorType, count1: TensorType, *, word: str
) -> TensorType:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011): a cipher of two words of u32.

    `word` says what is given of the two words that come out: `"first"`, `"second"`, or
    `"both"`, which is their exclusive or.
    """
    if word not in ("first", "second", "both"):
        raise GraphError(
            f"word is {word!r}; it must be 'first', 'second' or 'both'",
            remedy="pass word='first', word='second' or word='both'",
        )
    operands = {"key0": key0, "key1": key1, "count0": count0, "count1": count1}
    for name, type in operands.items():
        require_dtype(type, "u32", name)
    return key0.with_shape(broadcast_shapes(*(type.shape for type in operands.values())))


@op(_FAMILY, Trait.ELEMENTWISE, Trait.EXPENSIVE)
def philox4x32(
    key0: TensorType,
    key1: TensorType,
    count0: TensorType,
    count1: TensorType,
    count2: TensorType,
    count3: TensorType,
    *,
    word: int,
) -> TensorType:
    """Word `word`, of 4, that Philox-4x32 with 10 rounds makes of a counter of 128 bits.

    The generator of Salmon et al. (2011), except that the first multiplier is 0xD2561A75.
    """
    if word not in range(4):
        raise GraphError(f"word is {word}; it must be 0, 1, 2 or 3", remedy="pass word=0")
    operands = (key0, key1, count0, count1, count2, count3)
    for type in operands:
        require_dtype(type, "u32")
    return key0.with_shape(broadcast_shapes(*(type.shape for type in operands)))

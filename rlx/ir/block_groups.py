"""Block types whose weights are looked up in a codebook, eight or four at a time, and signed.

iq1_s  iq1_m  iq2_xxs  iq2_xs  iq2_s  iq3_xxs  iq3_s
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlx.ir.block_type import Block, Lookups, Number, Scales, declare_block

_GROUPS = 32
"""Groups of eight weights in a block."""


def _pair(block: Block, at: int) -> Number:
    """Return an integer of two bytes."""
    return block.byte(at) | (block.byte(at + 1) << 8)


def _quad(block: Block, at: int) -> Number:
    """Return four bytes as an integer, which may be negative."""
    return _pair(block, at) | (_pair(block, at + 2) << 16)


def _parity(seven: Number) -> Number:
    """Return seven signs and the eighth, which makes their number even."""
    folded = seven ^ (seven >> 4)
    folded = folded ^ (folded >> 2)
    return seven | (((folded ^ (folded >> 1)) & 1) << 7)


def _scaled(d: Number, block: Block, nibble: Number, unit: float) -> Number:
    return d * (block.number(nibble) + 0.5) * unit


def _nibble_scales(at: int) -> Callable[[Block], Scales]:
    """Return a scale for every two groups, of four bits."""

    def scales(block: Block) -> Scales:
        d = block.half(0)
        bytes = [block.byte(at + i) for i in range(8)]
        of = [_scaled(d, block, (bytes[i // 2] >> (4 * (i % 2))) & 15, 0.25) for i in range(16)]
        return [(of[run // 2], None) for run in range(_GROUPS)]

    return scales


def _word_scales(at: int, step: int, unit: float, groups: int) -> Callable[[Block], Scales]:
    """Return a scale for every 32 weights: the top four bits of words that also hold signs."""

    def scales(block: Block) -> Scales:
        d = block.half(0)
        tops = [block.byte(at + step * part + 3) >> 4 for part in range(8)]
        of = [_scaled(d, block, top, unit) for top in tops]
        return [(of[run // (groups // 8)], None) for run in range(groups)]

    return scales


def _signs_in_words(block: Block, at: int, step: int) -> list[Number]:
    """Return eight signs for each group, of which words hold seven."""
    words = [_quad(block, at + step * part) for part in range(8)]
    return [_parity((words[g // 4] >> (7 * (g % 4))) & 127) for g in range(_GROUPS)]


def _signed(code: Number, signs: Number, place: Number) -> Number:
    return code * (1 - (((signs >> place) & 1) << 1))


def _of_eight(block: Block, place: Number, words: Sequence[Number]) -> Sequence[Number]:
    """Return 8, 25 or 43 with its sign: codes of two bits below signs of one."""
    at = block.integer(place)

    def code(word: Number) -> Number:
        number = (word >> (at << 1)) & 3
        return _signed(number * 17 + (number >> 1) + 8, word >> 16, at)

    return [code(word) for word in words]


def _iq2_xxs_words(block: Block) -> Lookups:
    signs = _signs_in_words(block, 6, 8)
    indices = [block.byte(2 + 8 * (g // 4) + g % 4) for g in range(_GROUPS)]
    return list(zip(indices, signs, strict=True))


declare_block(
    "iq2_xxs", 16, elements=256, size=66, runs=32, scales=_word_scales(6, 8, 0.25, 32),
    codebook="iq2_xxs", lookups=_iq2_xxs_words,
)(_of_eight)  # fmt: skip


def _iq2_xs_words(block: Block) -> Lookups:
    pairs = [_pair(block, 2 + 2 * g) for g in range(_GROUPS)]
    return [(pair & 511, _parity(pair >> 9)) for pair in pairs]


declare_block(
    "iq2_xs", 17, elements=256, size=74, runs=32, scales=_nibble_scales(66),
    codebook="iq2_xs", lookups=_iq2_xs_words,
)(_of_eight)  # fmt: skip


def _iq2_s_words(block: Block) -> Lookups:
    high = [block.byte(66 + part) for part in range(8)]

    def word(g: int) -> tuple[Number, Number]:
        index = block.byte(2 + g) | (((high[g // 4] >> (2 * (g % 4))) & 3) << 8)
        return index, block.byte(34 + g)

    return [word(g) for g in range(_GROUPS)]


declare_block(
    "iq2_s", 22, elements=256, size=82, runs=32, scales=_nibble_scales(74),
    codebook="iq2_s", lookups=_iq2_s_words,
)(_of_eight)  # fmt: skip


def _half_signs(signs: Sequence[Number]) -> list[Number]:
    """Return four signs for each half of a group."""
    return [(signs[half // 2] >> (4 * (half % 2))) & 15 for half in range(2 * _GROUPS)]


def _iq3_xxs_words(block: Block) -> Lookups:
    signs = _half_signs(_signs_in_words(block, 66, 4))
    return [(block.byte(2 + half), sign) for half, sign in enumerate(signs)]


@declare_block(
    "iq3_xxs", 18, elements=256, size=98, runs=64, scales=_word_scales(66, 4, 0.5, 64),
    codebook="iq3_xxs", lookups=_iq3_xxs_words,
)  # fmt: skip
def _iq3_xxs(block: Block, place: Number, words: Sequence[Number]) -> Sequence[Number]:
    """4, 12, 20, .. 52 and 62."""
    at = block.integer(place)

    def code(word: Number) -> Number:
        number = (word >> (at << 2)) & 7
        return _signed((number << 3) + 4 + (((number + 1) >> 3) << 1), word >> 16, at)

    return [code(word) for word in words]


def _iq3_s_scales(block: Block) -> Scales:
    d = block.half(0)
    bytes = [block.byte(106 + i) for i in range(4)]
    of = [d * block.number((((bytes[i // 2] >> (4 * (i % 2))) & 15) << 1) + 1) for i in range(8)]
    return [(of[run // 8], None) for run in range(64)]


def _iq3_s_words(block: Block) -> Lookups:
    high = [block.byte(66 + part) for part in range(8)]
    signs = _half_signs([block.byte(74 + g) for g in range(_GROUPS)])

    def word(half: int) -> tuple[Number, Number]:
        index = block.byte(2 + half) | (((high[half // 8] >> (half % 8)) & 1) << 8)
        return index, signs[half]

    return [word(half) for half in range(2 * _GROUPS)]


@declare_block(
    "iq3_s", 21, elements=256, size=110, runs=64, scales=_iq3_s_scales,
    codebook="iq3_s", lookups=_iq3_s_words,
)  # fmt: skip
def _iq3_s(block: Block, place: Number, words: Sequence[Number]) -> Sequence[Number]:
    at = block.integer(place)
    return [_signed((((word >> (at << 2)) & 7) << 1) + 1, word >> 16, at) for word in words]


# Eighths: each weight is -1, 0 or 1, and an eighth more or less


def _eighths(block: Block, place: Number, words: Sequence[Number]) -> Sequence[Number]:
    """Return eight times each weight; a bit above the codes says whether the eighth is taken."""
    at = block.integer(place)
    return [((((word >> (at << 1)) & 3) - 1) << 3) + 1 - ((word >> 16) << 1) for word in words]


def _odd(d: Number, block: Block, three_bits: Number) -> Number:
    """Return an eighth of `d` times an odd number."""
    return d * block.number((three_bits << 1) + 1) * 0.125


def _iq1_s_scales(block: Block) -> Scales:
    d = block.half(0)
    of = [_odd(d, block, (block.byte(35 + 2 * part) >> 4) & 7) for part in range(8)]
    return [(of[run // 4], None) for run in range(_GROUPS)]


def _iq1_s_words(block: Block) -> Lookups:
    high = [_pair(block, 34 + 2 * part) for part in range(8)]

    def word(g: int) -> tuple[Number, Number]:
        index = block.byte(2 + g) | (((high[g // 4] >> (3 * (g % 4))) & 7) << 8)
        return index, high[g // 4] >> 15

    return [word(g) for g in range(_GROUPS)]


declare_block(
    "iq1_s", 19, elements=256, size=50, runs=32, scales=_iq1_s_scales,
    codebook="iq1", lookups=_iq1_s_words,
)(_eighths)  # fmt: skip


def _iq1_m_scales(block: Block) -> Scales:
    """The f16 is stored in the top four bits of four words."""
    pairs = [_pair(block, 48 + 2 * part) for part in range(4)]
    bits = pairs[0] >> 12
    for part in range(1, 4):
        bits = bits | ((pairs[part] >> 12) << (4 * part))
    d = block.half_of(bits)
    of = [_odd(d, block, (pairs[i // 4] >> (3 * (i % 4))) & 7) for i in range(16)]
    return [(of[run // 2], None) for run in range(_GROUPS)]


def _iq1_m_words(block: Block) -> Lookups:
    high = [block.byte(32 + i) for i in range(16)]

    def word(g: int) -> tuple[Number, Number]:
        nibble = (high[g // 2] >> (4 * (g % 2))) & 15
        return block.byte(g) | ((nibble & 7) << 8), nibble >> 3

    return [word(g) for g in range(_GROUPS)]


declare_block(
    "iq1_m", 29, elements=256, size=56, runs=32, scales=_iq1_m_scales, halves=(),
    codebook="iq1", lookups=_iq1_m_words,
)(_eighths)  # fmt: skip

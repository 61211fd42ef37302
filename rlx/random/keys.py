"""Keys of random numbers: what a draw depends on, and nothing else.

A key is an array of u32: two words for Threefry, JAX's default, whose keys, splitting and bits
these are (`jax_threefry_partitionable`, as JAX has it since 0.5); four for Philox, whose last two
are the upper half of the counter.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from rlx.errors import DTypeError, InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import Extent, Shape, product, upper
from rlx.ir.types import TensorType
from rlx.numpy.axes import shape_from
from rlx.numpy.elementwise import bitwise_xor, right_shift
from rlx.numpy.shaping import concatenate, reshape, stack
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, graph, wrap
from rlx.tracing.trace import TracedArray
from rlx.tracing.widths import are_narrow

WORD = (1 << 32) - 1


@function
def key(seed: Any, *, impl: str | None = None) -> Array:
    """Return the key of a seed: an integer of 64 bits, or of 32 where types have no more."""
    require_implementation(impl)
    words: Array = _seed_words(seed)
    if impl != "philox4x32":
        return words
    return concatenate([words[::-1], as_tracer(np.zeros(2, np.uint32))])  # the lower word first


def _seed_words(seed: Any) -> Any:
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        bits = operator.index(seed)
        is_long = not isinstance(seed, np.integer) or seed.itemsize == 8
        high = bits >> 32 if is_long and not are_narrow() else 0
        return as_tracer(np.array([high & WORD, bits & WORD], np.uint32))
    seed = as_tracer(seed)
    if not seed.value.dtype.is_int or seed.shape != ():
        raise InputError(
            f"the seed is an array of type {seed.value.type}; it must be one integer",
            remedy="pass an integer; use rlx.vmap for keys of many seeds",
        )
    return stack([_upper_word(seed), convert(seed, DType.U32)])


PRNGKey = key


def require_implementation(impl: str | None) -> None:
    if impl not in (None, "threefry2x32", "philox4x32"):
        raise InputError(
            f"impl is {impl!r}; the generators are 'threefry2x32' and 'philox4x32'",
            remedy="leave impl out",
        )


def _upper_word(seed: Any) -> Any:
    """Return what is above 32 bits; there is nothing in a narrower integer."""
    if seed.value.dtype.size < 8:
        return as_tracer(np.uint32(0))
    return convert(right_shift(convert(seed, DType.U64), 32), DType.U32)


@function
def split(key: Any, num: Any = 2) -> Array:
    """Return `num` keys, an integer or a shape, that are independent of each other and of `key`."""
    shape = shape_from(num)
    if is_philox(key):
        lower, upper = positions(product(shape))
        words = stack(_philox_words(words_of(key), lower, upper, _SPLIT), axis=-1)
        return reshape(words, (*shape, 4))
    first, second = (random_words(key, shape, word) for word in ("first", "second"))
    return stack([first, second], axis=-1)


@function
def fold_in(key: Any, data: Any) -> Array:
    """Return the key of `key` and an integer, of which 32 bits count."""
    if isinstance(data, int):
        data = np.uint32(data & WORD)
    number = as_tracer(data)
    if not number.value.dtype.is_int or number.shape != ():
        raise InputError(
            f"data is an array of type {number.value.type}; it must be one integer",
            remedy="pass an integer; use rlx.vmap to fold in many",
        )
    number = convert(number, DType.U32)
    if is_philox(key):
        return stack(_philox_words(words_of(key), number, np.uint32(0), _FOLD))
    first, second = words_of(key)
    zero = np.uint32(0)
    return stack(
        [emit(ops.threefry2x32, first, second, zero, number, word=w) for w in ("first", "second")]
    )


@function
def key_data(keys: Any) -> Array:
    """Return the words of keys: these are arrays of u32 already."""
    return as_tracer(keys)


@function
def wrap_key_data(words: Any, *, impl: str | None = None) -> Array:
    """Return words of u32 as keys, which they are already."""
    require_implementation(impl)
    return as_tracer(words)


@function
def clone(key: Any) -> Array:
    """Return `key`: as arrays never change, keys may be used anywhere."""
    return as_tracer(key)


def words_of(key: Any) -> list[Any]:
    """Return the words of one key as scalars."""
    if not isinstance(key, (TracedArray, np.ndarray)):
        raise InputError(
            f"the key is {key!r:.80}; it must be an array",
            remedy="make one of a seed with rlx.random.key(seed)",
        )
    traced: Any = as_tracer(key)
    if traced.value.dtype is not DType.U32:
        raise DTypeError(
            f"the key has dtype {traced.value.dtype}; it must be u32",
            remedy="make one of a seed with rlx.random.key(seed)",
        )
    if traced.shape not in ((2,), (4,)):
        raise ShapeError(
            f"the key has shape {traced.shape}; one key has shape (2,), of Philox (4,)",
            remedy="draw with one key at a time, or map over many with rlx.vmap",
        )
    return [traced[i] for i in range(traced.shape[0])]


def is_philox(key: Any) -> bool:
    return len(words_of(key)) == 4


def random_words(key: Any, shape: Shape, word: str) -> Array:
    """Return one u32 for each element of `shape`: the cipher of its position, 64 bits wide."""
    words = words_of(key)
    if len(words) == 4:
        return _random_words_of_philox(words, shape, word)
    lower, above = positions(product(shape))
    flat = emit(ops.threefry2x32, *words, above, lower, word=word)
    found: Array = reshape(flat, tuple(shape))
    return found


def positions(count: Extent) -> tuple[Any, Any]:
    """Return the numbers below `count`: their lower and upper 32 bits."""
    above: Any = np.uint32(0)
    if upper(count) > WORD + 1:
        position = wrap(graph().iota(type=TensorType(DType.I64, (count,))))
        above = convert(right_shift(position, 32), DType.U32)
    return wrap(graph().iota(type=TensorType(DType.U32, (count,)))), above


_SPLIT, _FOLD = 1 << 31, 1 << 30
"""Of the last word of Philox's counter: keys come from another place than bits."""


def _random_words_of_philox(words: list[Any], shape: Shape, word: str) -> Array:
    """Return the words of consecutive blocks; of pairs, the first or second of a block each."""
    count = product(shape)
    if word != "both":
        place = {"first": 0, "second": 1}[word]
        pairs: Array = reshape(_philox_words(words, *positions(count), 0)[place], tuple(shape))
        return pairs
    blocks = stack(_philox_words(words, *positions(-(-count // 4)), 0), axis=-1)
    flat: Array = reshape(reshape(blocks, (-1,))[:count], tuple(shape))
    return flat


def _philox_words(words: list[Any], lower: Any, upper: Any, place: int) -> list[Any]:
    last = bitwise_xor(words[3], np.uint32(place)) if place else words[3]
    counter = (lower, upper, words[2], last)
    return [emit(ops.philox4x32, *words[:2], *counter, word=word) for word in range(4)]

"""Searches for text of the domain `com.microsoft`: loops over the decoder that a node holds.

Every step runs the decoder on whole texts, without a cache: they are arrays of the largest length,
of which a causal decoder reads what comes before a place only, so that one body serves all steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.errors import UnsupportedError
from rlx.onnx.registry import Static, operator
from rlx.transforms.control import while_loop

_DOMAIN = "com.microsoft"
_LOWEST = np.float32(np.finfo(np.float32).min)


class _Decoder:
    """A causal decoder of `input_ids, position_ids, attention_mask, past_0, ...`."""

    def __init__(self, op: str, body: Any, prompt: Any, mask: Any, pad: int, length: int) -> None:
        self.body = body
        self.pasts = [_empty_past(op, each, prompt.shape[0]) for each in body.proto.input[3:]]
        count, first = prompt.shape
        seen = rnp.not_equal(prompt, pad) if mask is None else rnp.not_equal(mask, 0)
        rest = np.ones((count, length - first), np.int32)
        self.mask = rnp.concatenate([rnp.astype(seen, "i32"), rest], 1)
        places = rnp.cumsum(self.mask, 1) - 1
        self.places = rnp.astype(rnp.where(rnp.equal(self.mask, 1), places, 0), "i32")

    def logits(self, texts: Any, end: Any) -> Any:
        """Return the scores `[texts, words]` of the word at `end`."""
        found = self.body(texts, self.places, self.mask, *self.pasts)[0]
        return rnp.take(found, end - 1, axis=1)


def _empty_past(op: str, declared: Any, count: int) -> Any:
    """Return keys and values of no words, `[2, texts, heads, 0, width]`."""
    extents = [d.dim_value for d in declared.type.tensor_type.shape.dim]
    if len(extents) != 5 or not extents[2] or not extents[4]:
        raise UnsupportedError(
            f"{op}: input {declared.name!r} of the decoder has the shape {extents}, and no numbers "
            "of heads and their width at the places of [2, batch, heads, past, width]",
            remedy="export a decoder without cross attention, whose caches have that shape",
        )
    return np.zeros((2, count, extents[2], 0, extents[4]), np.float32)


class _Limits:
    """What lowers scores of words: penalties, masks, and a least length."""

    def __init__(
        self, first: int, end_word: int, least: Any, penalty: Any, mask: Any, prefix_mask: Any
    ) -> None:
        self.first, self.end_word, self.least = first, end_word, int(_number(least, 0))
        self.penalty, self.mask, self.prefix_mask = _number(penalty, 1.0), mask, prefix_mask

    def applied(self, scores: Any, texts: Any, end: Any) -> Any:
        """Return the scores `[texts, words]` of the word at `end`."""
        scores = self._penalized(scores, texts, end)
        if self.mask is not None:
            scores = rnp.where(rnp.equal(self.mask, 0), _LOWEST, scores)
        if self.prefix_mask is not None:
            hidden = rnp.logical_and(rnp.equal(self.prefix_mask, 0), rnp.equal(end, self.first))
            scores = rnp.where(hidden, _LOWEST, scores)
        is_end = rnp.equal(np.arange(scores.shape[1]), self.end_word)
        return rnp.where(rnp.logical_and(is_end, rnp.less(end, self.least)), _LOWEST, scores)

    def _penalized(self, scores: Any, texts: Any, end: Any) -> Any:
        """Lower the scores of words that a text has already."""
        if self.penalty == 1.0:
            return scores
        words = np.arange(scores.shape[1], dtype=np.int32)
        written = rnp.less(np.arange(texts.shape[1], dtype=np.int32), end)
        same = rnp.equal(rnp.expand_dims(texts, 2), words)
        used = rnp.any(rnp.logical_and(same, rnp.expand_dims(written, 1)), 1)
        lower = rnp.where(rnp.less(scores, 0), scores * self.penalty, scores / self.penalty)
        return rnp.where(used, lower, scores)


def _number(value: Any, default: float) -> Any:
    return default if value is None else np.ravel(value)[0].item()


def _started(prompt: Any, length: int, pad: int) -> Any:
    """Return prompts `[texts, length]`, filled up by padding."""
    rest = np.full((prompt.shape[0], length - prompt.shape[1]), pad, np.int32)
    return rnp.concatenate([rnp.astype(prompt, "i32"), rest], 1)


def _extended(texts: Any, end: Any, word: Any) -> Any:
    """Return texts with a word each at `end`, along the last axis."""
    is_place = rnp.equal(np.arange(texts.shape[-1], dtype=np.int32), end)
    return rnp.where(is_place, rnp.expand_dims(rnp.astype(word, "i32"), -1), texts)


def _one_by_one(decoder: _Decoder, start: Any, first: int, choose: Any, end_word: int, pad: int,
                carried: Any) -> Any:  # fmt: skip
    """Append words that `choose` takes until all texts have ended; the rest is padding."""
    count, length = start.shape

    def goes_on(state: Any) -> Any:
        end, _, ended, _ = state
        return rnp.logical_and(rnp.less(end, length), rnp.logical_not(rnp.all(ended)))

    def step(state: Any) -> Any:
        end, texts, ended, carried = state
        word, carried = choose(decoder.logits(texts, end), texts, end, carried)
        ended = rnp.logical_or(ended, rnp.equal(word, end_word))
        word = rnp.where(ended, np.int32(pad), rnp.astype(word, "i32"))
        return end + 1, _extended(texts, end, word), ended, carried

    state = (np.asarray(first, np.int32), start, np.zeros(count, bool), carried)
    return while_loop(goes_on, step, state)[1]


@operator("GreedySearch", domain=_DOMAIN)
def greedy_search(
    prompt: Any, max_length: Static, min_length: Static = None, repetition_penalty: Static = None,
    vocab_mask: Any = None, prefix_mask: Any = None, attention_mask: Any = None, *, decoder: Any,
    eos_token_id: int, pad_token_id: int, model_type: int = 0, vocab_size: int = -1,
    no_repeat_ngram_size: int = 0, decoder_start_token_id: int = -1, encoder: Any = None,
    init_decoder: Any = None,
) -> Any:  # fmt: skip
    """Append the word of the largest score."""
    del decoder_start_token_id, vocab_size
    _refuse("GreedySearch", model_type=model_type, encoder=encoder, init_decoder=init_decoder,
            no_repeat_ngram_size=no_repeat_ngram_size)  # fmt: skip
    first, length = prompt.shape[1], int(_number(max_length, 0))
    limits = _Limits(first, eos_token_id, min_length, repetition_penalty, vocab_mask, prefix_mask)
    reader = _Decoder("GreedySearch", decoder, prompt, attention_mask, pad_token_id, length)

    def choose(scores: Any, texts: Any, end: Any, carried: Any) -> Any:
        return rnp.argmax(limits.applied(scores, texts, end), -1), carried

    start = _started(prompt, length, pad_token_id)
    return _one_by_one(reader, start, first, choose, eos_token_id, pad_token_id, ())


@operator("Sampling", domain=_DOMAIN)
def sampling(
    prompt: Any, max_length: Static, min_length: Static = None, repetition_penalty: Static = None,
    vocab_mask: Any = None, prefix_mask: Any = None, attention_mask: Any = None,
    presence_mask: Any = None, seed: Static = None, *, decoder: Any, eos_token_id: int,
    pad_token_id: int, model_type: int = 0, vocab_size: int = -1, temperature: float = 1.0,
    top_p: float = 0.0, filter_value: float = -1e20, min_tokens_to_keep: int = 0,
    presence_penalty: float = 0.0, custom: int = 0, no_repeat_ngram_size: int = 0,
    decoder_start_token_id: int = -1, encoder: Any = None, init_decoder: Any = None, node: Any,
) -> Any:  # fmt: skip
    """Append words drawn of the most probable ones, by random numbers of ours."""
    del decoder_start_token_id, vocab_size
    _refuse("Sampling", model_type=model_type, encoder=encoder, init_decoder=init_decoder,
            no_repeat_ngram_size=no_repeat_ngram_size, custom=custom,
            presence_penalty=presence_penalty, presence_mask=presence_mask,
            filtered_logits=node.has_output(1))  # fmt: skip
    first, length = prompt.shape[1], int(_number(max_length, 0))
    limits = _Limits(first, eos_token_id, min_length, repetition_penalty, vocab_mask, prefix_mask)
    reader = _Decoder("Sampling", decoder, prompt, attention_mask, pad_token_id, length)

    def choose(scores: Any, texts: Any, end: Any, key: Any) -> Any:
        scores = limits.applied(scores, texts, end) / np.float32(temperature)
        scores = _most_probable(scores, top_p, min_tokens_to_keep, filter_value)
        key, own = rlx.random.split(key)
        return rlx.random.categorical(own, scores), key

    start, key = _started(prompt, length, pad_token_id), rlx.random.key(int(_number(seed, 0)))
    return _one_by_one(reader, start, first, choose, eos_token_id, pad_token_id, key)


def _most_probable(scores: Any, top_p: float, least: int, filtered: float) -> Any:
    """Filter words outside of the most probable ones that have `top_p` of the probability."""
    if not 0 < top_p < 1:
        return scores
    ascending = rnp.sort(scores, -1)
    below = rnp.cumsum(nn.softmax(ascending, -1), -1)
    is_out = rnp.less_equal(below, np.float32(1 - top_p))
    kept = max(least, 1)
    is_out = rnp.logical_and(is_out, np.arange(scores.shape[1]) < scores.shape[1] - kept)
    lowest = rnp.min(rnp.where(is_out, np.float32(np.inf), ascending), -1, keepdims=True)
    return rnp.where(rnp.less(scores, lowest), np.float32(filtered), scores)


@operator("BeamSearch", domain=_DOMAIN)
def beam_search(
    prompt: Any, max_length: Static, min_length: Static = None, num_beams: Static = None,
    num_return_sequences: Static = None, length_penalty: Static = None,
    repetition_penalty: Static = None, vocab_mask: Any = None, prefix_mask: Any = None,
    attention_mask: Any = None, decoder_input_ids: Any = None, logits_processor: Static = None, *,
    decoder: Any, eos_token_id: int, pad_token_id: int, model_type: int = 0, vocab_size: int = -1,
    early_stopping: int = 0, no_repeat_ngram_size: int = 0, decoder_start_token_id: int = -1,
    encoder: Any = None, init_decoder: Any = None, node: Any,
) -> Any:  # fmt: skip
    """Keep the texts of the largest sums of log probabilities, and those that have ended."""
    del decoder_start_token_id, vocab_size
    _refuse("BeamSearch", model_type=model_type, encoder=encoder, init_decoder=init_decoder,
            no_repeat_ngram_size=no_repeat_ngram_size, decoder_input_ids=decoder_input_ids,
            logits_processor=_number(logits_processor, 0), scores=node.has_output(2))  # fmt: skip
    first, length, beams = prompt.shape[1], int(_number(max_length, 0)), int(_number(num_beams, 1))
    wide_mask, wide = (
        None if each is None else rnp.repeat(each, beams, 0) for each in (attention_mask, prompt)
    )
    prefixes = None if prefix_mask is None else rnp.repeat(prefix_mask, beams, 0)
    limits = _Limits(first, eos_token_id, min_length, repetition_penalty, vocab_mask, prefixes)
    reader = _Decoder("BeamSearch", decoder, wide, wide_mask, pad_token_id, length)
    start = rnp.reshape(_started(wide, length, pad_token_id), (prompt.shape[0], beams, length))
    power = float(_number(length_penalty, 1.0))
    search = _Beams(reader, limits, start, first, power, bool(early_stopping))
    texts, scores = search.best(int(_number(num_return_sequences, 1)))
    return texts, scores, None


class _Beams:
    """The state of a beam search, as `while_loop` carries it."""

    def __init__(
        self, decoder: _Decoder, limits: _Limits, start: Any, first: int, power: float, early: bool
    ) -> None:
        self.decoder, self.limits, self.power, self.early = decoder, limits, power, early
        self.start, self.first = start, first
        self.count, self.beams, self.length = start.shape

    def best(self, wanted: int) -> tuple[Any, Any]:
        """Return the best texts `[prompts, wanted, length]` and their scores."""
        sums = np.full((self.count, self.beams), -1e9, np.float32)
        sums[:, 0] = 0
        kept = np.full((self.count, self.beams), -np.inf, np.float32), self.start
        state = (np.asarray(self.first, np.int32), self.start, sums, *kept,
                 np.zeros(self.count, bool))  # fmt: skip
        end, texts, sums, scores, ended, done = while_loop(self._goes_on, self._step, state)
        for beam in range(self.beams):
            found = self._scored(sums[:, beam], end)
            scores, ended = _kept(scores, ended, found, texts[:, beam], rnp.logical_not(done))
        order = rnp.argsort(-scores, 1)[:, :wanted]
        chosen = rnp.take_along_axis(ended, rnp.expand_dims(order, 2), 1)
        return chosen, rnp.take_along_axis(scores, order, 1)

    def _scored(self, sums: Any, end: Any) -> Any:
        return sums / rnp.power(rnp.astype(end, "f32"), np.float32(self.power))

    def _goes_on(self, state: Any) -> Any:
        return rnp.logical_and(rnp.less(state[0], self.length), rnp.logical_not(rnp.all(state[-1])))

    def _step(self, state: Any) -> Any:
        end, texts, sums, scores, ended, done = state
        flat = rnp.reshape(texts, (self.count * self.beams, self.length))
        found = nn.log_softmax(self.decoder.logits(flat, end), -1)
        found = self.limits.applied(found, flat, end)
        words = found.shape[1]
        total = rnp.reshape(found, (self.count, self.beams, words)) + rnp.expand_dims(sums, 2)
        flat_total = rnp.reshape(total, (self.count, self.beams * words))
        top, index = rlx.lax.top_k(flat_total, 2 * self.beams)
        beam, word = rnp.floor_divide(index, words), rnp.mod(index, words)
        goes_on, is_end = rnp.logical_not(done), rnp.equal(word, self.limits.end_word)
        for rank in range(self.beams):
            text = _picked(texts, beam[:, rank : rank + 1])[:, 0]
            adds = rnp.logical_and(goes_on, is_end[:, rank])
            scores, ended = _kept(scores, ended, self._scored(top[:, rank], end), text, adds)
        order = rnp.argsort(rnp.astype(is_end, "i32"), 1, stable=True)[:, : self.beams]
        beam, word, sums = (rnp.take_along_axis(each, order, 1) for each in (beam, word, top))
        texts = _extended(_picked(texts, beam), end, word)
        worst = rnp.min(scores, 1)
        is_full = rnp.greater(worst, -np.inf)
        if not self.early:
            best = self._scored(top[:, 0], end)
            is_full = rnp.logical_and(is_full, rnp.greater_equal(worst, best))
        return end + 1, texts, sums, scores, ended, rnp.logical_or(done, is_full)


def _picked(texts: Any, beam: Any) -> Any:
    return rnp.take_along_axis(texts, rnp.expand_dims(beam, 2), 1)


def _kept(scores: Any, texts: Any, score: Any, text: Any, adds: Any) -> tuple[Any, Any]:
    """Replace the worst text of each prompt by one of a larger score, where `adds`."""
    worst = rnp.argmin(scores, 1)
    better = rnp.logical_and(adds, rnp.greater(score, rnp.min(scores, 1)))
    place = rnp.equal(np.arange(scores.shape[1]), rnp.expand_dims(worst, 1))
    replaced = rnp.logical_and(place, rnp.expand_dims(better, 1))
    scores = rnp.where(replaced, rnp.expand_dims(score, 1), scores)
    texts = rnp.where(rnp.expand_dims(replaced, 2), rnp.expand_dims(text, 1), texts)
    return scores, texts


def _refuse(op: str, **given: Any) -> None:
    """Raise an UnsupportedError that names what is given and not computed here."""
    named = [name for name, value in given.items() if value is not None and value != 0]
    if named:
        raise UnsupportedError(
            f"{op} with {', '.join(named)} is not computed here",
            remedy="run the encoder and the decoder in sessions of their own, and search in Python",
        )

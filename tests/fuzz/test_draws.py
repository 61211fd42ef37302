"""Some cases of each kind of draw; that each finds what is wrong; that nothing is left undrawn."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import IndexOutOfRangeError, RlxError
from rlx.ir.op import OPS
from rlx.ir.reference import evaluate
from tests.fuzz import eager
from tests.fuzz.campaign import LINES, backends_for, case_of, outcome
from tests.fuzz.draws import KINDS, donation, indices, library, quantized, ranks, symbolic
from tests.fuzz.draws.case import Call
from tests.fuzz.draws.case import library as names_of_sources
from tests.fuzz.draws.library_functions import EXCUSED, FUNCTIONS, NOT_DRAWN
from tests.fuzz.native import lower
from tests.fuzz.program import Line, RandomProgram
from tests.records import OpRecord, records

CASES, DRAWS = 16, 60
CHUNKS = 16


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_implementations_and_models_agree_on_drawn_cases(kind: str) -> None:
    for seed in range(CASES):
        case = KINDS[kind](random.Random(f"{kind} {seed}"))
        failure = case.failure(seed, backends_for(seed))
        assert failure is None, f"{failure}\n{case.script()}"


def test_a_campaign_takes_kinds_in_turn_and_a_seed_gives_the_same_case_always() -> None:
    kinds = (LINES, "indices", "constants")
    assert [case_of(seed, kinds)[0] for seed in (1, 2, 4)] == ["indices", "constants", "indices"]
    for seed in (1, 2, 4, 5):
        (_, case, _), (_, again, _) = case_of(seed, kinds), case_of(seed, kinds)
        assert case.script() == again.script()
    assert outcome(1, kinds) is None


# What is drawn


def test_every_parameter_of_every_public_function_is_drawn_or_excused() -> None:
    assert list(library.undrawn()) == []


def test_tables_name_functions_and_parameters_that_there_are() -> None:
    functions = library.functions()
    assert [name for name in FUNCTIONS if name not in functions] == []
    unknown = [name for name in NOT_DRAWN if _lacks(name)]
    assert unknown == []
    names = {each.name for name in functions for each in library.parameters(name)}
    assert [name for name in EXCUSED if "(" not in name and name not in names] == []


def _lacks(name: str) -> bool:
    value: Any = names_of_sources()[name.partition(".")[0]]
    for part in name.split(".")[1:]:
        if not hasattr(value, part):
            return True
        value = getattr(value, part)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_call_of_every_public_function_is_accepted(chunk: int) -> None:
    refused = {}
    for name in sorted(library.functions())[chunk::CHUNKS]:
        errors = list(_refusals(name))
        if len(errors) == DRAWS:
            refused[name] = errors[-1]
    assert refused == {}


def _refusals(name: str) -> Iterator[RlxError]:
    """Yield the errors of drawn calls up to one that is accepted."""
    for seed in range(DRAWS):
        call = library.of(name, random.Random(f"{name} {seed}"))
        try:
            with np.errstate(all="ignore"):
                found = call.function(*map(rlx.numpy.asarray, call.arrays))
        except RlxError as error:
            yield error
        else:
            body: Any = inspect.unwrap(library.functions()[name])
            is_one = getattr(body, "__annotations__", {}).get("return") == "Array"
            if is_one and body.__globals__["Array"] is rlx.Array:
                assert isinstance(found, rlx.Array), name
            return


def test_indices_of_every_mode_are_drawn_inside_and_outside() -> None:
    drawn = [indices.case(random.Random(seed)) for seed in range(600)]
    text = "".join(call.source for call in drawn)
    for mode in (None, "clip", "fill", "drop", "wrap", "promise_in_bounds", "raise"):
        assert f"mode={mode!r}" in text
    for name in ("np.take(", "np.take_along_axis", "lax.dynamic_slice", "np.segment_", ".at["):
        assert name in text
    with np.errstate(all="ignore"):
        raised = [call for call in drawn if _raises(call)]
    assert 20 < len(raised) < 300


def _raises(call: Call) -> bool:
    assert call.model is not None
    try:
        call.model(*call.arrays)
    except IndexOutOfRangeError:
        return True
    return False


def test_collectives_are_drawn_of_both_kinds_of_values_and_with_gradients() -> None:
    drawn = [ranks.case(random.Random(seed)) for seed in range(300)]
    assert {case.replicated for case in drawn} == {True, False}
    assert {case.gradient for case in drawn} == {"", "w", "x", "both"}
    assert {case.ranks for case in drawn} == {1, 2, 3, 4}
    text = "".join(case.text for case in drawn)
    for name in (
        "psum", "pmean", "pmax", "pmin", "ppermute", "pbroadcast", "all_gather", "all_to_all",
        "psum_scatter", "axis_index",
    ):  # fmt: skip
        assert f"lax.{name}(" in text


def test_quantized_functions_are_drawn_with_values_and_slopes() -> None:
    drawn = [quantized.case(random.Random(seed)) for seed in range(200)]
    text = "".join(case.form for case in drawn)
    for name in ("jit(", "vmap(", "grad(", "jvp(", "vjp(", "scan(", "map(", "jacrev(", "cond("):
        assert f"rlx.{name}" in text
    assert {case.method for case in drawn} == {"max", "percentile", "entropy"}


# What is wrong is found


def test_a_result_that_is_not_the_models_is_a_failure() -> None:
    x = np.arange(3.0, dtype=np.float32)
    call = Call("def f(v0):\n    return np.flip(v0)\n", (x,), np.flip)
    assert call.failure(1, ("llvm",)) is None
    wrong = replace(call, model=lambda x: x).failure(1, ("llvm",))
    assert wrong is not None
    assert wrong.kind == "model"


def test_an_index_out_of_range_that_is_no_error_is_a_failure() -> None:
    x, i = np.arange(3.0, dtype=np.float32), np.array([0, 7])
    call = Call("def f(v0, v1):\n    return np.take(v0, v1)\n", (x, i), lambda x, i: x[i % 3])
    failure = call.failure(1, ("llvm",))
    assert failure is not None
    assert "IndexOutOfRangeError" in failure.text


def test_an_error_without_a_type_is_a_failure() -> None:
    def broken(_: Any) -> Any:
        raise AttributeError("a fault of the library")

    call = Call("def f(v0):\n    return broken(v0)\n", (np.ones(2),), names={"broken": broken})
    failure = call.failure(1, ("llvm",))
    assert failure is not None
    assert failure.kind == "raises without a type"


def test_what_is_held_and_is_overwritten_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    case = donation.Donated("(w + x, w)", (3,), "f4", ("view", "nothing"), False, 1)
    assert case.failure(0, ("llvm",)) is None

    state, real = np.zeros(3, np.float32), rlx.jit

    def overwriting(w: Any, x: Any) -> Any:
        before = np.array(w)
        return np.add(w, x, out=state), before

    def jit(f: Any, **how: Any) -> Any:
        return overwriting if "donate_argnums" in how else real(f, **how)

    monkeypatch.setattr(rlx, "jit", jit)
    failure = case.failure(0, ("llvm",))
    assert failure is not None
    assert failure.kind == "what is held was written"


def test_a_symbol_that_is_refused_without_a_stated_reason_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = "def f(v0, v1):\n    return np.abs(np.fft.fft(v0, axis=0))\n"
    case = symbolic.Symbolic(source, "f32", 3, 0, (0, 2), 1)
    assert case.failure(0, ("llvm",)) is None
    monkeypatch.setattr(symbolic, "REFUSED", {})
    failure = case.failure(0, ("llvm",))
    assert failure is not None
    assert failure.kind == "a symbol is refused"


# Bits of eager calls


def test_bits_that_differ_without_a_reason_are_a_failure() -> None:
    graph = rlx.jit(lambda x: x + 1).graph(np.ones(2, np.float32))
    one, next_one = np.ones(2, np.float32), np.nextafter(np.ones(2, np.float32), 2)
    assert not eager.unexplained(graph, [one], [one])
    assert "add" in eager.unexplained(graph, [one], [next_one])
    approximate = rlx.jit(rlx.numpy.exp).graph(one)
    assert not eager.unexplained(approximate, [one], [next_one])
    zeros = np.zeros(2, np.float32)
    assert "add" in eager.unexplained(graph, [zeros], [-zeros])
    largest = rlx.jit(rlx.numpy.max).graph(one)
    assert not eager.unexplained(largest, [zeros], [-zeros])


def test_eager_calls_are_compared_in_programs_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fuzz.check import check

    made = RandomProgram((("f32", (3,)),), (Line(1, "{0} + 1", (0,)),), (1,))
    assert check(made) is None
    monkeypatch.setattr("tests.fuzz.check.unexplained", lambda *_: "bits")
    failure = check(made)
    assert failure is not None
    assert failure.kind == "bits of eager calls"


def test_reasons_name_ops_that_there_are() -> None:
    named = {*eager.REASONS, *eager.COMPLEX_REASONS, *eager.EITHER_ZERO}
    assert sorted(named - {*OPS}) == []


def _by_op() -> Mapping[str, list[OpRecord]]:
    found: dict[str, list[OpRecord]] = {}
    for record in records():
        found.setdefault(record.op.name, []).append(record)
    return found


@pytest.mark.costly(4)
@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(_by_op()))
def test_bits_of_a_records_reference_are_those_of_code_or_have_a_reason(op: str) -> None:
    for record in _by_op()[op]:
        for dtype in record.dtypes:
            graph, feeds = record.graph(dtype), record.inputs(dtype)
            with np.errstate(all="ignore"):
                expected = evaluate(graph, feeds)
            found = lower(graph, 1).loaded("llvm", 1).run(feeds)
            text = eager.unexplained(graph, expected, found)
            assert not text, f"{record.id} of {dtype.value}: {text}"

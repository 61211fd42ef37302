"""Attribute values: what fits a declared type, and that every op's attributes can be printed."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Any, Literal

import numpy as np
import pytest

from rlx.errors import GraphError
from rlx.ir.attributes import classes_in, conform, exact
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph
from rlx.ir.literal import Literal as ConstantData
from rlx.ir.op import OPS
from rlx.ir.shape import Dim
from rlx.ir.types import TensorType


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@pytest.mark.parametrize(
    ("hint", "given", "kept"),
    [
        (int, np.int64(3), 3),
        (float, np.float32(0.5), 0.5),
        (float, 2, 2),
        (bool, np.bool_(True), True),
        (int | None, None, None),
        (DType, "f16", DType.F16),
        (DType, np.float32, DType.F32),
        (Side, "left", Side.LEFT),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, ...], range(2), (0, 1)),
        (tuple[tuple[int, int], ...], [[1, 2]], ((1, 2),)),
        (tuple[int | Dim, ...], (1, Dim("n")), (1, Dim("n"))),
        (Literal["a", "b"], "b", "b"),
    ],
)
def test_a_value_that_fits_is_brought_into_canonical_form(hint: Any, given: Any, kept: Any) -> None:
    fitted = conform("name", hint, given)
    assert exact(fitted) == exact(kept)


@pytest.mark.parametrize(
    ("hint", "given", "rule"),
    [
        (int, 1.0, "must be int"),
        (int, True, "must be int"),
        (float, "1", "must be float"),
        (bool, 1, "must be bool"),
        (str, None, "must be str"),
        (int | None, "x", "must be int | None"),
        (tuple[int, ...], 1, r"must be tuple\[int, ...\]"),
        (tuple[int, int], (1,), r"must be tuple\[int, int\]"),
        (Literal["a", "b"], "c", "must be 'a' or 'b'"),
        (Side, "up", r"must be Side \(left, right\)"),
        (Graph, 3, "must be Graph"),
    ],
)
def test_a_value_that_does_not_fit_names_the_rule(hint: Any, given: Any, rule: str) -> None:
    with pytest.raises(GraphError, match=rule):
        conform("name", hint, given)


def test_every_attribute_of_every_op_has_a_text_form() -> None:
    printable = (int, float, bool, str, type(None), Dim, DType, TensorType, Graph, ConstantData)
    for definition in OPS.values():
        for attribute in dataclasses.fields(definition.attrs):
            for kind in _leaves(attribute.type):
                named = kind in classes_in(attribute.type).values()
                assert kind in printable or named, (definition.name, attribute.name)


def _leaves(hint: Any) -> set[Any]:
    if typing.get_origin(hint) is Literal:
        return {type(value) for value in typing.get_args(hint)}
    arguments = [argument for argument in typing.get_args(hint) if argument is not Ellipsis]
    return {leaf for a in arguments for leaf in _leaves(a)} if arguments else {hint}

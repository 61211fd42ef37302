"""Attributes that several ops share: one record, declared once, that rules take as one."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from rlx import Graph
from rlx.errors import GraphError
from rlx.ir import ops
from rlx.ir.declaration import op, takes
from rlx.ir.op import OPS, Attrs
from rlx.ir.ops.conv_geometry import ConvAttributes
from rlx.ir.ops.pool_geometry import PoolAttributes
from rlx.ir.ops.stored_conv import StoredConvAttributes
from rlx.ir.types import TensorType
from rlx.splat.layout import RenderAttributes, RenderBackwardAttributes

SHARED: dict[str, type[Attrs]] = {
    "conv": ConvAttributes,
    "stored_conv": StoredConvAttributes,
    **dict.fromkeys(("max_pool", "min_pool", "sum_pool", "prod_pool", "max_pool_take",
                     "max_pool_backward"), PoolAttributes),
    **dict.fromkeys(("gaussian_splat_render", "gaussian_splat_prepare"), RenderAttributes),
    "gaussian_splat_render_backward": RenderBackwardAttributes,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaled(Attrs):
    by: float
    times: int = 1


@pytest.mark.parametrize("name", SHARED)
def test_ops_of_one_family_have_the_attributes_of_one_record(name: str) -> None:
    def declared(record: type[Attrs]) -> list[tuple[str, object]]:
        return [(field.name, field.default) for field in fields(record)]

    assert declared(OPS[name].attrs) == declared(SHARED[name])


def test_an_op_has_the_fields_of_its_record_as_attributes() -> None:
    @op("test", attributes=Scaled)
    def scaled(x: TensorType, attributes: Scaled) -> TensorType:
        return x.with_shape((*x.shape, attributes.times))

    try:
        g = Graph("example")
        y = scaled(g.input("x", (4,)), by=2.0, times=3)
        assert scaled.operands == ("x",)
        assert scaled.results == 1
        assert y.shape == (4, 3)
        assert "by = 2" in str(g)
        with pytest.raises(GraphError, match="needs attribute 'by'"):
            scaled(g.inputs[0])
        with pytest.raises(GraphError, match="has no attribute 'on'"):
            scaled(g.inputs[0], by=1.0, on=2)
    finally:
        del OPS["scaled"]


def test_rules_take_the_record_behind_their_operands_and_the_rest_by_name() -> None:
    @takes(Scaled)
    def rule(x: str, scaled: Scaled, *, lowering: str) -> tuple[str, float, int, str]:
        return x, scaled.by, scaled.times, lowering

    assert rule("x", by=2.0, lowering="tile") == ("x", 2.0, 1, "tile")


def test_a_convolution_prints_its_attributes_one_by_one() -> None:
    g = Graph("example")
    y = ops.conv(g.input("x", (1, 2, 8)), g.input("w", (4, 2, 3)), stride=(2,))
    g.set_outputs([y])
    assert "stride = " in str(g)
    assert y.node.attribute("groups") == 1


def test_attributes_are_read_by_name_without_a_dict_of_them() -> None:
    attributes = Scaled(by=2.0)
    assert attributes["by"] == attributes.get("by") == 2.0
    assert attributes.get("on") is None
    assert attributes.get("on", 7) == 7
    with pytest.raises(KeyError, match="as_dict"):
        attributes["as_dict"]

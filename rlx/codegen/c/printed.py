"""Fields that templates print without an escape: integers and `Emitted` text.

A name that is not here is printed through an escape, or the template does not load. Fields that
hold text from outside (`t.name`, `symbol.name`, `t.shape`) are not here. Subscripts are left out:
`a.arguments[0].c_name` is `a.arguments.c_name`.
"""

from __future__ import annotations

from collections.abc import Mapping

FIELDS: Mapping[str, str] = {
    "a": "abi_version alignment arena_bytes constants_bytes header_bytes info_places name prefix "
    "ranks source_hash sources stack_bytes version version_number weights_bytes "
    "weights_header_bytes weights_layout weights_magic weights_multiplier weights_version "
    "call_names call_params check_params frame_fields run_at_args run_names run_params sample_args",
    "a.arguments": "c_name",
    "a.constants": "c_name offset",
    "constant": "c_name c_type elements",
    "f": "c_type mpi_op mpi_type name symbol width",
    "loop": "index",
    "status": "name value",
    "step": "args frame_args name",
    "symbol": "c_name constant max min",
    "t": "axis_symbols bytes c_name c_type constant elements extents initial_offset labels offset "
    "role size",
    "t.ranks": "size stride",
}
"""By what a template calls an object, its fields."""

NAMES = (
    "block extent function helper kernel line name offset param params place prototype result "
    "slot text type"
)
"""Variables that templates are given or that loops bind."""

PRINTED = frozenset(
    [
        *NAMES.split(),
        *(f"{of}.{field}" for of, fields in FIELDS.items() for field in fields.split()),
    ]
)

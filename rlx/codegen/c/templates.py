"""The templates of all generated files."""

from __future__ import annotations

import functools

from jinja2 import Environment, PackageLoader, StrictUndefined


@functools.cache
def environment() -> Environment:
    """Return the environment that renders the files of `rlx/codegen/templates`."""
    return Environment(
        loader=PackageLoader("rlx.codegen", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )

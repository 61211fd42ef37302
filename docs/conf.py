"""How Sphinx builds the documentation: `make docs`, then open build/docs/index.html."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import rlx

project = "rlx"
author = "the rlx developers"
version = release = rlx.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_heading_anchors = 3
exclude_patterns = ["pictures"]
html_theme = "furo"
html_title = f"rlx {release}"

# Docstrings write code between single backticks, as Markdown does.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}


def leave_to_numpy(
    _app: object, _what: str, _name: str, member: object, skip: bool, _options: object
) -> bool:
    """Say whether a name is NumPy's own, which NumPy's documentation describes."""
    return skip or getattr(member, "__module__", "").split(".")[0] in ("numpy", "ml_dtypes")


def setup(app: Any) -> None:
    """Return what Sphinx leaves out."""
    app.connect("autodoc-skip-member", leave_to_numpy)

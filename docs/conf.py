"""How Sphinx builds the documentation: `make docs`, then open build/docs/index.html."""

import sys
from pathlib import Path

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

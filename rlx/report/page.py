"""The report as one HTML file that needs nothing else: data, script and style are inside.

What the template prints is escaped for HTML; `embedded` alone makes text that is printed as it is.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rlx.report.data import ReportData


def write_page(data: ReportData, path: Path) -> None:
    """Write the report to `path`."""
    path.write_text(render_page(data), encoding="utf-8")


def render_page(data: ReportData) -> str:
    """Return the report's HTML."""
    template = report_environment().get_template("report.html.j2")
    return template.render(name=data.name, data=embedded(dataclasses.asdict(data)), why=data.why)


def report_environment() -> Environment:
    """Return an environment that escapes whatever a template prints; no filter ends that."""
    made = Environment(
        loader=PackageLoader("rlx.report", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    made.filters = {"join": made.filters["join"]}
    return made


def embedded(data: object) -> Markup:
    """Return `data` as JSON that cannot end the script element that holds it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c"))

"""A sample of what slow cases do is left out exactly where all of them run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems


def item(name: str, mark: pytest.MarkDecorator | None = None) -> Any:
    marks = {} if mark is None else {mark.name: mark.mark}
    return SimpleNamespace(nodeid=name, get_closest_marker=marks.get)


SAMPLE = item("test.py::a[0]", pytest.mark.sample(count=2))
SLOW = [item(f"test.py::a[{i}]", pytest.mark.slow) for i in (1, 2)]
OTHERS = [item("test.py::b[1]", pytest.mark.slow), item("test.py::b[2]", pytest.mark.slow)]


@pytest.mark.parametrize(
    ("items", "is_left_out"),
    [
        ([SAMPLE, *SLOW], True),
        ([SAMPLE, SLOW[0]], False),
        ([SAMPLE, *OTHERS], False),
        ([SAMPLE], False),
    ],
)
def test_a_sample_is_left_out_where_all_slow_cases_run(items: list[Any], is_left_out: bool) -> None:
    left, out = list(items), list[Any]()
    hook = SimpleNamespace(pytest_deselected=lambda items: out.extend(items))
    pytest_collection_modifyitems(SimpleNamespace(hook=hook), left)  # type: ignore[arg-type]
    assert out == ([SAMPLE] if is_left_out else [])
    assert left == [each for each in items if each not in out]

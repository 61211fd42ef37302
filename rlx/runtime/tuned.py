"""Schedules that were measured on this machine: kept in the cache, used from then on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.runtime.programs import machine_parts, versions
from rlx.target import Target

if TYPE_CHECKING:
    from rlx.ir.lowering import Schedule
    from rlx.ir.schedules import Schedules

_SUFFIX = ".schedules"


def with_schedules(target: Target, given: Mapping[str, Schedule | str] | None) -> Target:
    """Return `target` with the schedules that are given, or else with those that were measured."""
    if given is None:
        measured = tuned_text(target)
        return replace(target, schedules=measured) if measured else target
    from rlx.ir.schedules import Schedules  # reads text: a program from the cache needs none

    return replace(target, schedules=str(Schedules.of(given)), requires_schedules=True)


def tuned_text(target: Target) -> str:
    """Return the schedules that were measured on `target`, as text; "" if there are none."""
    content = Cache(cache_directory()).read(_key(target), _SUFFIX)
    return "" if content is None else content.decode("utf-8", "replace")


def keep_tuned(target: Target, found: Schedules) -> None:
    """Add schedules to those that are used on `target` from now on."""
    from rlx.ir.schedules import Schedules

    known = Schedules.parse(tuned_text(target))
    merged = Schedules.of({**known, **found})
    Cache(cache_directory()).keep(_key(target), _SUFFIX, str(merged).encode())


def _key(target: Target) -> str:
    plain = replace(target, schedules="", requires_schedules=False)
    return content_key("schedules", *machine_parts(plain), *versions())

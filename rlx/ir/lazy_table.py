"""Tables by op name that load the module of an entry when it is first asked for.

Which module declares an op, or registers a rule or kernel, is listed in `ir.homes`, so that a
process loads what its program needs. Entries that are not listed, such as those of custom ops, are
there once they are set.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, MutableMapping
from typing import TypeVar

from rlx.errors import InternalError
from rlx.homes import homes_of
from rlx.locks import importing

V = TypeVar("V")


class LazyTable(MutableMapping[str, V]):
    """Entries of one kind by name, in the order of the list, then of insertion."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._known: dict[str, V] = {}

    def is_known(self, name: str) -> bool:
        """True if the entry is there already; loads nothing."""
        return name in self._known

    def holds(self, name: str, value: V) -> bool:
        """True if this very value is the entry of `name`; loads nothing."""
        return self._known.get(name) is value

    def is_free(self, name: str) -> bool:
        """True if an entry may be set: there is none, and no other module is listed for one."""
        if homes_of(self.kind).get(name, __name__) not in sys.modules:
            self.load(name)
        return name not in self._known

    def names(self) -> list[str]:
        """Return the names of all entries; loads nothing."""
        return list(dict.fromkeys((*homes_of(self.kind), *self._known)))

    def load(self, name: str) -> None:
        """Load the module that is listed for an entry; without one, do nothing."""
        home = homes_of(self.kind).get(name)
        if home is None or name in self._known:
            return
        with importing():
            module = importlib.import_module(home)
        is_being_executed = getattr(module.__spec__, "_initializing", False)
        if name not in self._known and not is_being_executed:
            raise InternalError(
                f"{home} is listed for {self.kind} {name} and has none",
                remedy="run python tools/generate_homes.py",
            )

    def __getitem__(self, name: str) -> V:
        if name not in self._known:
            self.load(name)
        return self._known[name]

    def __setitem__(self, name: str, value: V) -> None:
        self._known[name] = value

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in homes_of(self.kind)

    def __iter__(self) -> Iterator[str]:
        names = self.names()
        for name in names:
            self.load(name)
        return iter(names)

    def __len__(self) -> int:
        return len(self.names())

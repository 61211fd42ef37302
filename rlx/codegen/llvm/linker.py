"""Object code laid out for loading, without LLVM: a tenth of its library's loading time.

    linked = link([code])        # None: something this linker does not know; LLVM links it then

Objects may call each other's functions. Our kernels are a simple case: code that reaches its
constants and functions relative to itself, no variables of its own, a few functions of the C
library or a BLAS, slots of the process. The layout is

    code, a jump per name from outside │ constants, a pointer per name from outside

so that only the pointers, the imports, depend on addresses in a process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rlx.dataclass import dataclass

PAGE = 4096
_HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_CLASS_64, _LITTLE_ENDIAN, _RELOCATABLE, _X86_64 = 2, 1, 1, 62
_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITABLE, _LOADED, _CODE, _THREAD_LOCAL = 1, 2, 4, 0x400
_GLOBAL_BINDING, _UNDEFINED, _FIRST_RESERVED = 1, 0, 0xFF00
_RELATIVE, _CALL = 2, 4
_POINTED = (9, 41, 42)
"""Kinds that refer to external symbols through a pointer, which their load keeps."""
_JUMP = b"\xff\x25"
"""`jmp *distance(%rip)`; the distance follows."""
_JUMP_BYTES, _POINTER_BYTES = 8, 8


@dataclass(frozen=True, slots=True)
class LinkedObject:
    """Bytes to be placed at the start of a page. What is after `code_bytes` is no code."""

    content: bytes
    code_bytes: int
    exports: Mapping[str, int]
    """Offsets of the functions that can be called."""
    imports: Mapping[str, int]
    """Offsets of the pointers to be filled in, by the name of the function."""


def link(objects: Sequence[bytes]) -> LinkedObject | None:
    """Return object code laid out, or None for what is not of the simple kind."""
    if not all(map(_is_simple, objects)):
        return None
    try:
        return _Linker([_Object(code) for code in objects]).link()
    except _UnusualError:
        return None


class _UnusualError(Exception):
    """Valid object code, but not what our kernels are made of."""


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    start: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


class _Relocation(NamedTuple):
    section: int
    """The number of the section that is changed."""
    offset: int
    kind: int
    symbol: int
    addend: int


def _is_simple(code: bytes) -> bool:
    if len(code) < _HEADER.size:
        return False
    magic, bits, order, *_ = fields = _HEADER.unpack_from(code)
    kind, machine = fields[5:7]
    wanted = (b"\x7fELF", _CLASS_64, _LITTLE_ENDIAN, _RELOCATABLE, _X86_64)
    return (magic, bits, order, kind, machine) == wanted


class _Object:
    """The sections and symbols of one object."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        header = _HEADER.unpack_from(code)
        start, count = header[10], header[16]
        self.sections = [
            _Section(*_SECTION.unpack_from(code, start + i * _SECTION.size)) for i in range(count)
        ]
        table = self._only(_SYMBOL_TABLE)
        self._names = self.content(self.sections[table.link])
        self.symbols = [_Symbol(*row) for row in _SYMBOL.iter_unpack(self.content(table))]
        self.places: dict[int, int] = {}
        """Number of a section -> its offset in the layout."""

    def name(self, symbol: _Symbol) -> str:
        stop = self._names.index(b"\0", symbol.name)
        return self._names[symbol.name : stop].decode()

    def content(self, section: _Section) -> bytes:
        return self._code[section.start : section.start + section.size]

    def relocations(self) -> Iterator[_Relocation]:
        for section in self.sections:
            if section.type == _RELOCATIONS and self.sections[section.info].flags & _LOADED:
                for row in _RELOCATION.iter_unpack(self.content(section)):
                    yield _Relocation(section.info, *row)

    def offset(self, symbol: _Symbol) -> int:
        if symbol.section not in self.places:
            raise _UnusualError
        return self.places[symbol.section] + symbol.value

    def exports(self) -> dict[str, int]:
        return {
            self.name(symbol): self.offset(symbol)
            for symbol in self.symbols
            if symbol.info >> 4 == _GLOBAL_BINDING and _UNDEFINED < symbol.section < _FIRST_RESERVED
        }

    def _only(self, type: int) -> _Section:
        found = [section for section in self.sections if section.type == type]
        if len(found) != 1:
            raise _UnusualError
        return found[0]


class _Outside(NamedTuple):
    """Where names are that an object does not define itself."""

    exports: Mapping[str, int]
    jumps: Mapping[str, int]
    pointers: Mapping[str, int]


class _Linker:
    def __init__(self, objects: Sequence[_Object]) -> None:
        self._objects = objects
        self._layout = bytearray()

    def link(self) -> LinkedObject:
        self._place(_CODE)
        exports = self._code_exports()
        outside = sorted(self._undefined() - exports.keys())
        jumps = {name: self._reserve(_JUMP_BYTES, 8) for name in outside}
        code_bytes = self._reserve(0, PAGE)
        self._place(0)
        pointers = {name: self._reserve(_POINTER_BYTES, 8) for name in outside}
        for name, jump in jumps.items():
            self._layout[jump : jump + 2] = _JUMP
            self._write_distance(jump + 2, pointers[name] - (jump + 6))
        for each in self._objects:
            for relocation in each.relocations():
                self._relocate(each, relocation, _Outside(exports, jumps, pointers))
        return LinkedObject(bytes(self._layout), code_bytes, exports, pointers)

    def _place(self, wanted: int) -> None:
        """Append the sections that hold code, or those that hold none."""
        for each in self._objects:
            for number, section in enumerate(each.sections):
                if not section.flags & _LOADED or section.flags & _CODE != wanted:
                    continue
                if section.size and (
                    section.flags & (_WRITABLE | _THREAD_LOCAL)
                    or section.type == _NO_BITS
                    or section.alignment > PAGE
                ):
                    raise _UnusualError
                place = self._reserve(section.size, max(section.alignment, 1))
                self._layout[place : place + section.size] = each.content(section)
                each.places[number] = place

    def _code_exports(self) -> dict[str, int]:
        """Return the offsets of the functions that objects export; none exports the same."""
        found = [each.exports() for each in self._objects]
        exports = {name: place for each in found for name, place in each.items()}
        if len(exports) != sum(map(len, found)):
            raise _UnusualError
        return exports

    def _undefined(self) -> set[str]:
        """Return the names that code refers to and its own object does not define."""
        return {
            each.name(symbol)
            for each in self._objects
            for symbol in {each.symbols[r.symbol] for r in each.relocations()}
            if symbol.section == _UNDEFINED
        }

    def _reserve(self, size: int, alignment: int) -> int:
        """Append `size` zeros and return where they are."""
        self._layout += bytes(-len(self._layout) % alignment)
        place = len(self._layout)
        self._layout += bytes(size)
        return place

    def _relocate(self, each: _Object, relocation: _Relocation, outside: _Outside) -> None:
        place = each.places[relocation.section] + relocation.offset
        target = self._target(each, relocation, outside)
        self._write_distance(place, target + relocation.addend - place)

    def _target(self, each: _Object, relocation: _Relocation, outside: _Outside) -> int:
        """Return the offset that a relocation refers to."""
        kind, symbol = relocation.kind, each.symbols[relocation.symbol]
        name = each.name(symbol) if symbol.section == _UNDEFINED else ""
        if kind in _POINTED and name in outside.pointers:
            return outside.pointers[name]
        if kind in (_RELATIVE, _CALL) and not name:
            return each.offset(symbol)
        if kind in (_RELATIVE, _CALL) and name in outside.exports:
            return outside.exports[name]
        if kind == _CALL:
            return outside.jumps[name]
        raise _UnusualError

    def _write_distance(self, place: int, distance: int) -> None:
        self._layout[place : place + 4] = struct.pack("<i", distance)

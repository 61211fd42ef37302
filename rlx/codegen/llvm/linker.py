"""Object code laid out for loading, without LLVM: a tenth of its library's loading time.

    linked = link(code)          # None: something this linker does not know; LLVM links it then

Our kernels are a simple case: code that reaches its constants and functions relative to itself,
no variables of its own, a few functions of the C library or a BLAS, slots of the process. The
layout is

    code, a jump per name from outside │ constants, a pointer per name from outside

so that only the pointers, the imports, depend on addresses in a process.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
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


def link(code: bytes) -> LinkedObject | None:
    """Return object code laid out, or None for what is not of the simple kind."""
    if not _is_simple(code):
        return None
    try:
        return _Linker(code).link()
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


def _is_simple(code: bytes) -> bool:
    if len(code) < _HEADER.size:
        return False
    magic, bits, order, *_ = fields = _HEADER.unpack_from(code)
    kind, machine = fields[5:7]
    wanted = (b"\x7fELF", _CLASS_64, _LITTLE_ENDIAN, _RELOCATABLE, _X86_64)
    return (magic, bits, order, kind, machine) == wanted


class _Linker:
    def __init__(self, code: bytes) -> None:
        self._code = code
        header = _HEADER.unpack_from(code)
        start, count = header[10], header[16]
        self._sections = [
            _Section(*_SECTION.unpack_from(code, start + i * _SECTION.size)) for i in range(count)
        ]
        table = self._only(_SYMBOL_TABLE)
        self._names = self._content(self._sections[table.link])
        self._symbols = [_Symbol(*row) for row in _SYMBOL.iter_unpack(self._content(table))]
        self._layout = bytearray()
        self._places: dict[int, int] = {}
        """Number of a section -> its offset."""

    def link(self) -> LinkedObject:
        relocations = [
            (section.info, row)
            for section in self._sections
            if section.type == _RELOCATIONS and self._sections[section.info].flags & _LOADED
            for row in _RELOCATION.iter_unpack(self._content(section))
        ]
        called = {symbol for _, (_, kind, symbol, _) in relocations if kind == _CALL}
        read = {symbol for _, (_, kind, symbol, _) in relocations if kind in _POINTED}
        outside = [s for s in sorted(called | read) if self._symbols[s].section == _UNDEFINED]
        self._place(_CODE)
        jumps = {symbol: self._reserve(_JUMP_BYTES, 8) for symbol in outside}
        code_bytes = self._reserve(0, PAGE)
        self._place(0)
        pointers = {symbol: self._reserve(_POINTER_BYTES, 8) for symbol in outside}
        for symbol, jump in jumps.items():
            self._layout[jump : jump + 2] = _JUMP
            self._write_distance(jump + 2, pointers[symbol] - (jump + 6))
        for section, relocation in relocations:
            through = pointers if relocation[1] in _POINTED else jumps
            self._relocate(self._places[section], relocation, through)
        imports = {self._name(self._symbols[s]): pointer for s, pointer in pointers.items()}
        return LinkedObject(bytes(self._layout), code_bytes, self._exports(), imports)

    def _place(self, wanted: int) -> None:
        """Append the sections that hold code, or those that hold none."""
        for number, section in enumerate(self._sections):
            if not section.flags & _LOADED or section.flags & _CODE != wanted:
                continue
            if section.size and (
                section.flags & (_WRITABLE | _THREAD_LOCAL)
                or section.type == _NO_BITS
                or section.alignment > PAGE
            ):
                raise _UnusualError
            place = self._reserve(section.size, max(section.alignment, 1))
            self._layout[place : place + section.size] = self._content(section)
            self._places[number] = place

    def _reserve(self, size: int, alignment: int) -> int:
        """Append `size` zeros and return where they are."""
        self._layout += bytes(-len(self._layout) % alignment)
        place = len(self._layout)
        self._layout += bytes(size)
        return place

    def _relocate(
        self, base: int, relocation: tuple[int, int, int, int], through: Mapping[int, int]
    ) -> None:
        offset, kind, number, addend = relocation
        target = through.get(number)
        if kind not in (_RELATIVE, _CALL, *_POINTED):
            raise _UnusualError
        if (kind == _RELATIVE and target is not None) or (kind in _POINTED and target is None):
            raise _UnusualError
        if target is None:
            target = self._offset(self._symbols[number])
        self._write_distance(base + offset, target + addend - (base + offset))

    def _write_distance(self, place: int, distance: int) -> None:
        self._layout[place : place + 4] = struct.pack("<i", distance)

    def _offset(self, symbol: _Symbol) -> int:
        if symbol.section not in self._places:
            raise _UnusualError
        return self._places[symbol.section] + symbol.value

    def _exports(self) -> dict[str, int]:
        return {
            self._name(symbol): self._offset(symbol)
            for symbol in self._symbols
            if symbol.info >> 4 == _GLOBAL_BINDING and _UNDEFINED < symbol.section < _FIRST_RESERVED
        }

    def _name(self, symbol: _Symbol) -> str:
        stop = self._names.index(b"\0", symbol.name)
        return self._names[symbol.name : stop].decode()

    def _content(self, section: _Section) -> bytes:
        return self._code[section.start : section.start + section.size]

    def _only(self, type: int) -> _Section:
        found = [section for section in self._sections if section.type == type]
        if len(found) != 1:
            raise _UnusualError
        return found[0]

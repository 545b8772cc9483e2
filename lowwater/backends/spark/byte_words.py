"""Texts in one buffer, looked at eight bytes at a time, in all rows at once.

A row is a place in the buffer. A word is the eight bytes from a place on, as one number whose lowest byte is the first.
So a step of NumPy over words checks eight bytes of every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]

_EACH = np.uint64(0x0101010101010101)
_HIGH, _LOW = _EACH << np.uint64(7), _EACH * np.uint64(0x7F)
_ONE, _BYTE, _TOP, _SIGN = np.uint64(1), np.uint64(8), np.uint64(56), np.uint64(7)
_SPAN = 24
"""Bytes of a number that are looked at."""
_KNOWN = np.array([[(1 << 8 * min(max(n - w, 0), 8)) - 1 for n in range(_SPAN + 1)] for w in (0, 8, 16)], np.uint64)
"""Masks of the bytes that a text of n bytes has in its first, second and third word."""
_ZEROS = _EACH * np.uint64(ord("0"))
_NO_DIGIT = _EACH * np.uint64(0x76)
"""Added to a digit less "0", it leaves the high bit of a byte; added to any larger byte, it sets it."""
_POINT = np.uint64(ord(".") ^ ord("0"))
_MINUS, _ZERO = ord("-"), ord("0")
_ROOM = 64
"""Bytes behind the texts, so that a word can begin at any of their places."""


@dataclass(frozen=True)
class Text:
    """The bytes of all rows, where rows begin and end, and the words that begin at each byte."""

    data: npt.NDArray[np.uint8]
    words: Words
    start: Places
    end: Places

    @staticmethod
    def of(values: pa.BinaryArray, longest: int) -> Text:
        """With room for words of a text of `longest` bytes behind the last value."""
        _, offsets, data = values.buffers()
        places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        first, size = places[0], int(places[-1] - places[0])
        bytes = np.zeros(size + longest + _ROOM, np.uint8)
        if size:
            bytes[:size] = np.frombuffer(data, np.uint8)[first : first + size]
        words = np.ndarray(len(bytes) - 7, "<u8", bytes, strides=(1,))
        return Text(bytes, words, places[:-1] - first, places[1:] - first)

    def spans(self, start: Places, end: Places) -> pa.StringArray:
        """The texts from `start` to `end`, each with a null behind it, which costs no copy of the bytes.

        Spans are in their order and do not overlap.
        """
        places = np.empty(2 * len(start) + 1, np.int32)
        places[:-1:2], places[1::2] = start, end
        places[-1] = end[-1] if len(end) else 0
        valid = np.full((2 * len(start) + 7) // 8, 0b01010101, np.uint8)
        buffers = [pa.py_buffer(one) for one in (valid, places, self.data)]
        return pa.Array.from_buffers(pa.string(), 2 * len(start), buffers, len(start))

    def has_controls_or(self, byte: int) -> bool:
        """Whether this byte or a control character is in any row."""
        inside = self.data[: self.end[-1]] if len(self.end) else self.data[:0]
        return bool((inside < ord(" ")).any() or (inside == byte).any())

    def found(self, byte: int, start: Places) -> Places:
        """The places of the first such byte at `start` or behind it; the ends of rows that have none."""
        wanted = _EACH * np.uint64(byte)
        place, rows = start.copy(), None
        while True:
            at = place if rows is None else place[rows]
            differs = self.words[at] ^ wanted
            equal = (differs - _EACH) & ~differs & _HIGH  # exact up to the first one
            before = ((equal - _ONE) & ~equal & _EACH) * _EACH >> _TOP  # 1 + the place in the word; 8 without one
            at = at + before.astype(np.int64) - (equal != 0)
            place[slice(None) if rows is None else rows] = at
            left = (equal == 0) & (at < (self.end if rows is None else self.end[rows]))
            if not left.any():
                return np.minimum(place, self.end)
            rows = np.flatnonzero(left) if rows is None else rows[left]

    def is_number(self, start: Places, end: Places, digits: int, fraction: bool) -> Marks:
        """Whether the text between is a number of at most `digits` digits, without exponent and needless zeros.

        With `fraction`, at most `digits` before a point and 2 to 20 behind it (`0.` leaves room for 20). Others may be
        numbers too. -0 is none, unless there is a point.
        """
        negative = self.data[start] == _MINUS
        start = start + negative
        length = end - start
        known = np.clip(length, 0, _SPAN)
        good, points = length > 0, np.zeros(len(start), np.int64)
        second = points
        for n in range(0, int(known.max(initial=0)), 8):
            word = (self.words[start + n] ^ _ZEROS) & _KNOWN[n // 8][known]
            wrong = (((word & _LOW) + _NO_DIGIT) | word) & _HIGH
            if not fraction:
                good &= wrong == 0
                continue
            wrong >>= _SIGN
            good &= (word & (wrong * np.uint64(0xFF))) == wrong * _POINT
            points = points + (wrong * _EACH >> _TOP).astype(np.int64)
            if not n:
                good &= wrong & _ONE == 0
                second = (wrong >> _BYTE & _ONE).astype(np.int64)
        zero = self.data[start] == _ZERO
        if not fraction:
            return good & (length <= digits) & (~zero | ((length == 1) & ~negative))  # type: ignore[no-any-return]
        good &= (points <= 1) & (self.data[end - 1] != ord("."))
        good &= length <= digits + 2 * points + 2 * (zero & (second == 1))
        return good & (~zero | (second == 1) | ((length == 1) & ~negative))  # type: ignore[no-any-return]

    def is_one_of(self, start: Places, end: Places, texts: Sequence[bytes]) -> Marks:
        """Whether the text between is one of these, of at most 8 bytes each."""
        length = end - start
        word = self.words[start] & _KNOWN[0][np.clip(length, 0, _SPAN)]
        found = np.zeros(len(start), np.bool_)
        for text in texts:
            found |= (word == np.uint64(int.from_bytes(text, "little"))) & (length == len(text))
        return found


@dataclass(frozen=True)
class Template:
    """Bytes that a text has at a place: each is the given one, or any digit."""

    length: int
    first: int
    words: tuple[tuple[np.uint64, np.uint64, np.uint64], ...]
    """Per word the expected bytes, with "0" for digits; what it adds to find wrong ones; and the bytes that count."""

    @classmethod
    def of(cls, text: bytes, is_digit: Sequence[bool]) -> Self:
        """
        >>> template = Template.of(b"a00", [False, True, True])
        >>> template.matches(Text.of(pa.array([b"a12", b"a1x", b"b12"]), 3), np.array([0, 3, 6])).tolist()
        [True, False, False]
        """
        words = []
        for n in range(0, len(text), 8):
            expected = bytes(ord("0") if d else b for b, d in zip(text[n : n + 8], is_digit[n : n + 8], strict=True))
            added = bytes(0x76 if d else 0x7F for d in is_digit[n : n + 8])
            known = len(expected)
            words.append(tuple(np.uint64(int.from_bytes(one, "little")) for one in (expected, added, b"\xff" * known)))
        return cls(len(text), text[0], tuple(words))  # type: ignore[arg-type]

    def matches(self, text: Text, at: Places) -> Marks:
        wrong = np.zeros(len(at), np.uint64)
        for n, (expected, added, known) in enumerate(self.words):
            word = (text.words[at + 8 * n] ^ expected) & known
            wrong |= ((word & _LOW) + added) | word
        return wrong & _HIGH == 0  # type: ignore[no-any-return]

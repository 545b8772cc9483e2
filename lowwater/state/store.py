"""State addressed by path: small records, and slots of immutable segments that know their owner and their type.

An operator opens its state in a `Store`:

    record   a small mutable dataclass of plain values (counts, bounds), written as JSON when it has changed
    slots    named entries of one type. The value of an entry is immutable and becomes bytes at the commit. Plain facts
             about it (`meta`: rows, bounds, removed rows) can change without writing the value again

Each operator of a plan has its own path (`at`). A segment is found by (path, id), where the id is the hash of the
value's bytes. Equal bytes at two paths are two segments, and dropping one does not affect the other.

`commit` reports the changes since the last commit, for the host to write: texts of the directory, one per record and
per entry, and segments written and dropped. `open` restores a committed state; values are decoded when they are read.

>>> from dataclasses import dataclass
>>> import pyarrow as pa
>>> @dataclass
... class Reached:
...     low: int = 0
>>> saved = Saved()
>>> store = saved.open()
>>> reached, parts = store.record("reached", Reached()), store.at("left").slots("parts", OneTable())
>>> reached.low, _ = 7, parts.add(pa.table({"v": [1, 2]}), rows=2)
>>> changes = store.commit()
>>> sorted(changes.entries), [path for path, _ in changes.written]
(['left/parts/0', 'reached'], ['left/parts/0'])
>>> saved.apply(changes)
>>> other = saved.open()
>>> parts = other.at("left").slots("parts", OneTable())
>>> other.record("reached", Reached()).low, [entry.value["v"].to_pylist() for entry in parts]
(7, [[1, 2]])
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np

from lowwater.state.codec import Cache, Codec, Files, NamedTables, NoCache, OneTable
from lowwater.state.segments import hash_of, pack, unpack

__all__ = ["Cache", "Changes", "Codec", "Entry", "NamedTables", "NoCache", "OneTable", "Saved", "Slots", "Store"]

SEGMENT = 32 << 20
"""The largest size of a segment in bytes. A larger value is cut into several segments."""

T = TypeVar("T")
R = TypeVar("R")
Key = tuple[str, str]
"""The path of an entry and the id of a segment."""
Read = Callable[[str, str], bytes | memoryview]
_UNREAD: Any = object()


@dataclass(frozen=True)
class Changes:
    """The changes of a commit, for the host to write."""

    entries: dict[str, str | None] = field(default_factory=dict)
    """Texts of the directory by path; None where the entry is removed."""
    written: dict[Key, bytes] = field(default_factory=dict)
    dropped: set[Key] = field(default_factory=set)


class Entry(Generic[T]):
    """One value of a slot. `meta` holds plain values and may be changed at any time."""

    def __init__(self, owner: Slots[T], name: str, at: int, meta: dict[str, Any], value: T = _UNREAD) -> None:
        self.name = name
        self.meta = meta
        self._owner = owner
        self._at = at
        self._value = value
        self._data: bytes | None = None
        self._file: Path | None = None
        self._id: str | None = None
        self._size = 0

    @property
    def path(self) -> str:
        return f"{self._owner.path}/{self.name}"

    @property
    def value(self) -> T:
        if self._value is not _UNREAD:
            return self._value
        value = self._owner._fetched(self)
        if not self._owner.aside:
            self._value = value
        return value

    @property
    def is_encoded(self) -> bool:
        """Whether the value is encoded already, so that replacing it means encoding it again."""
        return self._id is not None

    @property
    def id(self) -> str:
        if self._id is None:
            self._data = pack(self._owner.codec.encode(self._value))
            self._id, self._size = hash_of(self._data), len(self._data)
        return self._id

    @property
    def size(self) -> int:
        """Bytes of the value as it is written."""
        return self._size if self.id else 0

    def _ids(self) -> list[str]:
        return _pieces(self.id, self.size)

    def _put_aside(self, files: Files) -> None:
        """Encodes the value into a file, and forgets it."""
        assert self.id
        assert self._data is not None
        self._file, self._data, self._value = files.write(self._data, self), None, _UNREAD

    def _bytes(self) -> bytes:
        """The value as it is written."""
        if self._file is not None:
            return self._file.read_bytes()
        return self._data or pack(self._owner.codec.encode(self.value))

    def _text(self) -> str:
        return _text({"id": self.id, "size": self.size, "at": self._at, "meta": self.meta})


class Slots(Generic[T]):
    """Entries of one type, by name. Entries that are added have an order: that of `add`, or of `arrange`.

    Values that are `aside` take no memory: they are on disk until they are committed, and decoded each time they are
    read.
    """

    def __init__(self, root: _Root, path: str, codec: Codec[T], aside: bool = False) -> None:
        self.path = path
        self.codec = codec
        self.aside = aside
        self._root = root
        self._entries: dict[str, Entry[T]] = {}
        below = f"{path}/"
        saved = [(p.removeprefix(below), json.loads(text)) for p, text in root.texts.items() if p.startswith(below)]
        for name, facts in sorted(saved, key=lambda one: one[1]["at"]):
            entry: Entry[T] = Entry(self, name, facts["at"], facts["meta"])
            entry._id, entry._size = facts["id"], facts["size"]
            self._entries[name] = entry
            root.keys[entry.path] = {(entry.path, id) for id in entry._ids()}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(list(self._entries.values()))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Entry[T]:
        return self._entries[name]

    def put(self, name: str, value: T, **meta: Any) -> Entry[T]:
        """Sets the value of a name, and replaces an earlier one."""
        before = self._entries.get(name)
        self._entries[name] = Entry(self, name, 0 if before is None else before._at, meta, value)
        return self._entries[name]

    def add(self, value: T, **meta: Any) -> Entry[T]:
        """Appends a value, under the next number as its name."""
        name, at = str(1 + max(map(int, self._entries), default=-1)), self._last + 1
        self._entries[name] = entry = Entry(self, name, at, meta, value)
        if self.aside:
            entry._put_aside(self._root.files)
        return entry

    def drop(self, name: str) -> None:
        self._entries.pop(name, None)

    def clear(self) -> None:
        self._entries = {}

    def arrange(self, entries: Iterable[Entry[T]]) -> None:
        """Keeps these entries in this order, and drops all others."""
        self._entries = {entry.name: entry for entry in entries}
        last = -1
        for entry in self._entries.values():
            entry._at = last = max(entry._at, last + 1)

    @property
    def _last(self) -> int:
        return self._entries[next(reversed(self._entries))]._at if self._entries else -1

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self._entries.values())

    @property
    def rows(self) -> int:
        """The sum of `rows` over all entries, for slots whose entries have `rows` in their meta."""
        return sum(entry.meta["rows"] for entry in self._entries.values())

    def _fetched(self, entry: Entry[T]) -> T:
        ids = entry._ids()
        if entry._file is not None:
            return self.codec.decode(unpack(entry._bytes()))

        def load() -> object:
            pieces = [self._root.read(entry.path, id) for id in ids]
            return self.codec.decode(unpack(pieces[0] if len(pieces) == 1 else b"".join(pieces)))

        cache = NoCache() if self.aside else self._root.cache
        return cast(T, cache.get(entry.path, entry.id, entry.size, load))


class _Root:
    """The part that all stores of one state share: the committed directory, and the open records and slots."""

    def __init__(self, texts: Mapping[str, str], read: Read, cache: Cache) -> None:
        self.texts = dict(texts)
        self.keys: dict[str, set[Key]] = {}
        self.read = read
        self.cache = cache
        self.files = Files()
        self.records: dict[str, tuple[Any, str]] = {}
        self.slots: dict[str, Slots[Any]] = {}
        self.settling: list[Callable[[], None]] = []

    def settle(self) -> None:
        for settle in self.settling:
            settle()


class Store:
    """See the module text. Without arguments it is a new state in memory."""

    def __init__(self, root: _Root | None = None, path: str = "") -> None:
        self._root = root or _Root({}, _absent, NoCache())
        self.path = path

    @staticmethod
    def open(entries: Mapping[str, str], read: Read, cache: Cache | None = None) -> Store:
        """A committed state. `entries` are the texts of its directory; `read` fetches a segment by path and id."""
        return Store(_Root(entries, read, cache or NoCache()))

    def _below(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def at(self, name: str) -> Store:
        """The store of a part of this one."""
        return Store(self._root, self._below(name))

    def has(self, name: str) -> bool:
        """Whether the committed state has anything at this path or below."""
        path = self._below(name)
        return any(known == path or known.startswith(f"{path}/") for known in self._root.texts)

    def record(self, name: str, default: R) -> R:
        """The record of this name: `default`, updated with the committed values, if any."""
        path = self._below(name)
        assert path not in self._root.records, f"the record {path} is open already"
        self._root.records[path] = (default, _text(_values(default)))
        if path in self._root.texts:
            for name, value in json.loads(self._root.texts[path]).items():
                setattr(default, name, value)
        return default

    def slots(self, name: str, codec: Codec[T], aside: bool = False) -> Slots[T]:
        path = self._below(name)
        assert path not in self._root.slots, f"the slots {path} are open already"
        self._root.slots[path] = slots = Slots(self._root, path, codec, aside)
        return slots

    def settling(self, settle: Callable[[], None]) -> None:
        """Registers a function that is called before a commit and before state is measured, to fill the slots."""
        self._root.settling.append(settle)

    def forget(self) -> None:
        """Drops the encoded bytes that measuring the state has left in memory; a commit encodes the values again."""
        for slots in self._root.slots.values():
            for entry in slots:
                entry._data = None

    @property
    def bytes(self) -> int:
        """The bytes of all segments at this path and below."""
        self._root.settle()
        inside = f"{self.path}/" if self.path else ""
        return sum(slots.bytes for path, slots in self._root.slots.items() if path.startswith(inside))

    @property
    def entries(self) -> int:
        """The number of entries in slots at this path and below."""
        self._root.settle()
        inside = f"{self.path}/" if self.path else ""
        return sum(len(slots) for path, slots in self._root.slots.items() if path.startswith(inside))

    def commit(self) -> Changes:
        """The changes of the whole state since the last commit."""
        root, changes = self._root, Changes()
        root.settle()
        for path, (record, default) in root.records.items():
            text = _text(_values(record))
            if text != root.texts.get(path, default):
                changes.entries[path] = root.texts[path] = text
        for slots in root.slots.values():
            self._commit(slots, changes)
        return changes

    def _commit(self, slots: Slots[Any], changes: Changes) -> None:
        root, below = self._root, f"{slots.path}/"
        for entry in slots:
            text = entry._text()
            if text == root.texts.get(entry.path):
                continue
            changes.entries[entry.path] = root.texts[entry.path] = text
            keys, before = {(entry.path, id) for id in entry._ids()}, root.keys.get(entry.path, set())
            if keys != before:
                data = entry._bytes()
                for i, id in enumerate(entry._ids()):
                    changes.written[entry.path, id] = data[i * SEGMENT : (i + 1) * SEGMENT]
                if not slots.aside:
                    root.cache.put(entry.path, entry.id, entry.size, entry.value)
                changes.dropped.update(before)
                root.keys[entry.path] = keys
            entry._data = None
        for path in [p for p in root.keys if p.startswith(below) and p.removeprefix(below) not in slots]:
            changes.entries[path] = None
            changes.dropped.update(root.keys.pop(path))
            del root.texts[path]


class Saved:
    """A committed state in memory, in the form in which a host keeps it."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.segments: dict[Key, bytes] = {}

    def apply(self, changes: Changes) -> None:
        for path, text in changes.entries.items():
            if text is None:
                del self.entries[path]
            else:
                self.entries[path] = text
        for key in changes.dropped:
            del self.segments[key]
        self.segments |= changes.written

    def open(self) -> Store:
        """A store on the current state. Later calls of `apply` do not change it."""
        segments = dict(self.segments)
        return Store.open(self.entries, lambda path, id: segments[path, id])


def segment_sizes(entries: Mapping[str, str]) -> dict[Key, int]:
    """The size of every segment in a directory, for a host that checks the segments that it reads."""
    sizes: dict[Key, int] = {}
    for path, text in entries.items():
        facts = json.loads(text)
        if set(facts) == {"id", "size", "at", "meta"}:  # a record has other fields
            ids = _pieces(facts["id"], facts["size"])
            sizes |= {(path, id): min(SEGMENT, facts["size"] - i * SEGMENT) for i, id in enumerate(ids)}
    return sizes


def _pieces(id: str, size: int) -> list[str]:
    """The ids of the segments of a value."""
    n = -(-size // SEGMENT)
    return [id] if n == 1 else [f"{id}.{i}" for i in range(n)]


def _absent(path: str, id: str) -> bytes:
    raise KeyError(f"A new state has no segment {id} at {path}.")


def _values(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}


def _text(values: dict[str, Any]) -> str:
    return json.dumps(values, default=_plain)


def _plain(value: object) -> object:
    assert isinstance(value, np.generic), f"{value!r} is no plain value"
    return value.item()

"""Segments as files of a machine: found by whoever asks, and never missed when they are not there."""

from __future__ import annotations

import os
from pathlib import Path

from lowwater.state.mirror import Mirror


def test_what_one_has_written_another_reads(tmp_path: Path) -> None:
    Mirror(tmp_path / "m", least=4).put("id", b"12345678")
    found = Mirror(tmp_path / "m", least=4).get("id", 8)
    assert found is not None
    assert bytes(found) == b"12345678"


def test_a_file_that_is_short_or_missing_is_not_there(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "m", least=4)
    mirror.put("id", b"12345678")
    (tmp_path / "m" / "id").write_bytes(b"1234")
    assert mirror.get("id", 8) is None
    assert mirror.get("another", 8) is None
    (tmp_path / "m" / "id").write_bytes(b"")
    assert mirror.get("id", 8) is None


def test_small_segments_are_left_to_the_store(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "m", least=100)
    mirror.put("id", b"12345678")
    assert not (tmp_path / "m").exists()


def test_the_oldest_make_room(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "m", budget=25, least=4)
    for i in range(4):
        mirror.put(f"s{i}", bytes(10))
        os.utime(tmp_path / "m" / f"s{i}", (1000 + i, 1000 + i))
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["s2", "s3"]


def test_a_directory_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    mirror = Mirror(tmp_path / "file" / "m", least=4)
    mirror.put("id", b"12345678")
    assert mirror.get("id", 8) is None


def test_what_is_dropped_is_gone_and_what_is_mapped_stays_readable(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "m", least=4)
    mirror.put("id", b"12345678")
    found = mirror.get("id", 8)
    mirror.drop("id")
    mirror.drop("id")
    assert mirror.get("id", 8) is None
    assert found is not None
    assert bytes(found) == b"12345678"

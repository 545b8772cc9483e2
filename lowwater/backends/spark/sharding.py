"""Shard keys that Spark's hash spreads one to a partition, for any number of partitions.

Spark puts a group into partition pmod(murmur3(key, seed 42), partitions). For one 32-bit integer that hash is a
bijection, so it can be run backwards: the key of shard i is the integer whose hash is exactly i. With n partitions,
shards 0..n-1 then lie in partitions 0..n-1. (The plain ids 0 and 1 both fall into the same one of two partitions, and
half of the machine would idle.) Shard 0 has the same key whatever their number, so a changed number finds state to
compare.

>>> [shard_key(i) for i in range(4)]
[-1693959553, -1910889132, -1382833682, -876271479]
>>> all(murmur3(shard_key(i)) == i for i in range(1000))
True
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_C1, _C2, _SEED = 0xCC9E2D51, 0x1B873593, 42


def _rotl(x: int, r: int) -> int:
    return ((x << r) | (x >> (32 - r))) & _MASK


def _inverse(odd: int) -> int:
    return pow(odd, -1, 1 << 32)


def murmur3(value: int) -> int:
    """Spark's hash of one int, as an unsigned number."""
    k = _rotl((value & _MASK) * _C1 & _MASK, 15) * _C2 & _MASK
    h = (_rotl(_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    return h ^ (h >> 16)


def shard_key(shard: int) -> int:
    """The signed 32-bit integer whose hash is `shard`: murmur3 run backwards, step by step."""
    h = shard ^ (shard >> 16)
    h = h * _inverse(0xC2B2AE35) & _MASK
    h ^= (h >> 13) ^ (h >> 26)
    h = h * _inverse(0x85EBCA6B) & _MASK
    h ^= h >> 16
    h ^= 4
    h = (h - 0xE6546B64) * _inverse(5) & _MASK
    k = _rotl(h, 32 - 13) ^ _SEED
    value = _rotl(k * _inverse(_C2) & _MASK, 32 - 15) * _inverse(_C1) & _MASK
    return value - (1 << 32) if value >> 31 else value


def shard_of(key: int, shards: int) -> int:
    """The inverse of `shard_key` among so many shards."""
    for shard in range(shards):
        if shard_key(shard) == key:
            return shard
    raise ValueError(f"{key} is not a shard key")

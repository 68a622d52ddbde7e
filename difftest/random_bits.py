"""Counter-based random bits: the same on every device, for ever.

A word is a 64-bit hash of (seed, name, element index): SplitMix64 (Steele, Lea, Flood 2014) started at a BLAKE2 hash of seed and name. Only
wrapping integer operations are used, so a CPU and a GPU give the same bits, and no generator state depends on what was drawn before.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_INCREMENT = 0x9E3779B97F4A7C15
_MULTIPLIERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_BLOCK = 1 << 15
"""Words a block on a CPU: a block and its temporaries stay in the second-level cache."""


def stream_key(seed: int, name: str) -> int:
    """Return the 64-bit start of the stream of a seed and a name, as a signed integer."""
    digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def word_blocks(seed: int, name: str, count: int, device: torch.device) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield `(slice, words)` that together cover the elements 0 to count - 1; words is int64 `(stop - start,)` and may be overwritten.

    On a CPU a block is small enough for the cache; elsewhere there is one block.
    """
    key = stream_key(seed, name)
    size = _BLOCK if device.type == "cpu" else max(count, 1)
    for start in range(0, count, size):
        stop = min(start + size, count)
        yield slice(start, stop), _hashed(torch.arange(start + 1, stop + 1, dtype=torch.int64, device=device), key)


def words(seed: int, name: str, count: int, device: torch.device) -> torch.Tensor:
    """Return the first `count` words of a stream, int64 `(count,)`."""
    result = torch.empty(count, dtype=torch.int64, device=device)
    for where, block in word_blocks(seed, name, count, device):
        result[where] = block
    return result


def word(seed: int, name: str) -> int:
    """Return the first word of a stream as an unsigned Python integer, without a tensor."""
    value = (stream_key(seed, name) + _INCREMENT) & _MASK
    for shift, multiplier in _MULTIPLIERS:
        value = ((value ^ (value >> shift)) * multiplier) & _MASK
    return value ^ (value >> _LAST_SHIFT)


_MASK = (1 << 64) - 1


def _hashed(index: torch.Tensor, key: int) -> torch.Tensor:
    """Return SplitMix64 of `key + index * increment`, in the memory of `index`."""
    index.mul_(_signed(_INCREMENT)).add_(key)
    for shift, multiplier in _MULTIPLIERS:
        index.bitwise_xor_(_shifted(index, shift)).mul_(_signed(multiplier))
    return index.bitwise_xor_(_shifted(index, _LAST_SHIFT))


def _shifted(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Return a logical right shift: torch's `>>` copies the sign."""
    return (value >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value

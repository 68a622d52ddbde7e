"""`extents`: sizes that seek the edges at which kernels go wrong."""

from __future__ import annotations

import bisect
import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from difftest.strategies.arguments import check_int, check_order

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALIGNMENT = 16
"""Triton specializes an integer on being a multiple of this."""

_PRIMES = (2, 3, 5, 7, 11, 13, 19, 29, 37, 53, 61, 97, 127, 251, 257, 509, 1021, 2039, 4093, 8191)
_STRONG = 4
"""An edge of the range or of a tile is as likely as this many of the other edges."""


def extents(tile: int | tuple[int, ...] | None = None, *, min_value: int = 0, max_value: int) -> st.SearchStrategy[int]:
    """Return a strategy for sizes from `min_value` to `max_value`, both included.

    About three draws in four are edges: 0, 1, the maximum and the value before it; with a tile (or several), tile - 1, tile, tile + 1,
    2 * tile - 1, 2 * tile and 2 * tile + 1; multiples of 16 and their neighbours; primes and powers of two. The others are any int of the
    range. Shrinks towards `min_value`, always to the smallest value that fails.

    Raises:
        InvalidStrategy: when an argument is not an int, a bound or a tile is negative or the range is empty.

    """
    check_int("extents", "min_value", min_value, low=0)
    check_int("extents", "max_value", max_value)
    check_order("extents", "min_value", min_value, "max_value", max_value)
    tiles = () if tile is None else tile if isinstance(tile, tuple) else (tile,)
    for one in tiles:
        check_int("extents", "tile", one, low=1)
    return _extents(min_value, max_value, tiles)


@functools.lru_cache(maxsize=4096)
def _extents(low: int, high: int, tiles: tuple[int, ...]) -> st.SearchStrategy[int]:
    ladder = _Ladder.over(low, high, tiles)
    return st.integers(0, ladder.total - 1).map(ladder.value)


def edges(min_value: int, max_value: int, tiles: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the edges within a range, ascending: what `extents` seeks."""
    found = {*_strong_edges(max_value, tiles), *_other_edges(max_value)}
    return tuple(sorted(value for value in found if min_value <= value <= max_value))


def _strong_edges(max_value: int, tiles: tuple[int, ...]) -> Iterator[int]:
    yield from (0, 1, max_value - 1, max_value)
    for tile in tiles:
        yield from (tile - 1, tile, tile + 1, 2 * tile - 1, 2 * tile, 2 * tile + 1)


def _other_edges(max_value: int) -> Iterator[int]:
    yield from _PRIMES
    for multiple in (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 128, 256, max_value // _ALIGNMENT):
        yield from (multiple * _ALIGNMENT - 1, multiple * _ALIGNMENT, multiple * _ALIGNMENT + 1)
    yield from itertools.takewhile(lambda power: power <= max_value, (1 << bits for bits in range(1, 64)))


@dataclass(frozen=True)
class _Ladder:
    """An order-preserving map from one index to the values of a range, on which an edge has as many rungs as its weight.

    One index that grows with the value is what makes shrinking exact: Hypothesis finds the smallest index, hence the smallest value.
    """

    start: int
    edges: tuple[int, ...]
    first_rungs: tuple[int, ...]
    after_rungs: tuple[int, ...]
    total: int

    @classmethod
    def over(cls, low: int, high: int, tiles: tuple[int, ...]) -> _Ladder:
        found, strong = edges(low, high, tiles), set(_strong_edges(high, tiles))
        shares = [_STRONG if edge in strong else 1 for edge in found]
        rungs_a_share = max(1, 3 * (high - low + 1) // sum(shares)) if shares else 0
        first, after, position, value = [], [], 0, low
        for edge, share in zip(found, shares, strict=True):
            position += edge - value
            first.append(position)
            position += share * rungs_a_share
            after.append(position)
            value = edge + 1
        return cls(low, found, tuple(first), tuple(after), position + high - value + 1)

    def value(self, index: int) -> int:
        """Return the value that stands at a rung."""
        before = bisect.bisect_right(self.first_rungs, index) - 1
        if before < 0:
            return self.start + index
        if index < self.after_rungs[before]:
            return self.edges[before]
        return self.edges[before] + 1 + index - self.after_rungs[before]

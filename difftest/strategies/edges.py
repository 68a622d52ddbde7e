"""`extents`: sizes that seek the edges at which kernels go wrong."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from difftest.strategies.arguments import check_int, check_order

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALIGNMENT = 16
"""Triton specializes an integer on being a multiple of this."""

_PRIMES = (2, 3, 5, 7, 11, 13, 19, 29, 37, 53, 61, 97, 127, 251, 257, 509, 1021, 2039, 4093, 8191)
_DENSE = 64
"""So many values from the minimum up are always among the rungs, so that a small failure shrinks exactly."""

_STRONG, _STRONG_OF_FEW = 12, 4
_RUNGS = 250
"""An edge of the range or of a tile has up to `_STRONG` rungs, so that fifty draws meet nearly every one; fewer where the range is so
narrow that every value is a rung. In all at most `_RUNGS`: Hypothesis draws an index up to 255 uniformly, and larger ones with a
preference for small ones that differs between its versions."""


def extents(tile: int | tuple[int, ...] | None = None, *, min_value: int = 0, max_value: int) -> st.SearchStrategy[int]:
    """Return a strategy for sizes from `min_value` to `max_value`, both included.

    Most draws are edges: 0, 1, the maximum and the value before it; with a tile (or several), tile - 1, tile, tile + 1, 2 * tile - 1,
    2 * tile and 2 * tile + 1; multiples of 16 and their neighbours; primes and powers of two; and small values. In a wide range one draw in
    four is any int. Shrinks towards `min_value`: to the smallest value that fails where that is small, else to one just above it.

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
    ladder = rungs(low, high, tiles)
    near = st.sampled_from(ladder)
    complete = len(set(ladder)) == high - low + 1
    # Not one_of: it counts a strategy that is given three times once.
    return near if complete else st.sampled_from((near, near, near, st.integers(low, high))).flatmap(lambda chosen: chosen)


def rungs(low: int, high: int, tiles: tuple[int, ...]) -> tuple[int, ...]:
    """Return the values that `extents` draws from with equal chances, ascending: one index that grows with the value shrinks exactly."""
    values = {*edges(low, high, tiles), *range(low, min(high + 1, low + _DENSE))}
    strong = values & set(_strong_edges(high, tiles))
    most = _STRONG if len(values) <= high - low else _STRONG_OF_FEW
    repeats = max(1, min(most, (_RUNGS - len(values)) // len(strong) + 1)) if strong else 1
    return tuple(sorted([*(values - strong), *list(strong) * repeats]))


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

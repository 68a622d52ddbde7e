"""`block_tables`, `query_start_locs` and `context_parallel`: batches of requests over a paged cache."""

from __future__ import annotations

from hypothesis import strategies as st

from difftest.case import Case
from difftest.errors import InvalidStrategy
from difftest.strategies.arguments import check_int, check_order
from difftest.strategies.edges import extents

_MAX_RAGGED = 12
"""Requests whose lengths are drawn one by one; larger batches repeat what was drawn."""


def block_tables(
    *, max_shared_prefix: int = 3, max_narrow: int = 2, max_offset: int = 16, max_row_gap: int = 17
) -> st.SearchStrategy[Case]:
    """Return a strategy for descriptors of block tables, from which `difftest.block_tables.block_table_tensor` makes any number of rows.

    Draws `Case(ids=..., shared_prefix=..., null_inside=..., tail=..., narrow=..., offset=..., row_gap=...)`: ids are "ascending" from 1,
    "permuted" or "huge" (up to 2**31 - 1); `shared_prefix` columns are the same block in every request; `null_inside` puts the null block 0
    among the used columns; the unused tail holds "null" or "garbage"; `narrow` columns that the context needs are missing; `row_gap`
    columns belong to a wider buffer from which the table is sliced, after `offset` elements.

    Shrinks towards ascending ids in a contiguous table of full width.

    Raises:
        InvalidStrategy: when a limit is not an int from 0 up.

    """
    limits = {"max_shared_prefix": max_shared_prefix, "max_narrow": max_narrow, "max_offset": max_offset, "max_row_gap": max_row_gap}
    for name, value in limits.items():
        check_int("block_tables", name, value, low=0)
    return st.builds(
        Case,
        ids=st.sampled_from(("ascending", "permuted", "huge")),
        shared_prefix=_often_zero(max_shared_prefix),
        null_inside=st.booleans(),
        tail=st.sampled_from(("null", "garbage")),
        narrow=_often_zero(max_narrow),
        offset=_often_zero(max_offset),
        row_gap=_often_zero(max_row_gap),
    )


def query_start_locs(
    *, max_requests: int, max_tokens: int, tile: int | None = None, min_requests: int = 0
) -> st.SearchStrategy[tuple[int, ...]]:
    """Return a strategy for the token counts of the requests of a batch, a tuple whose sum is at most `max_tokens`.

    Draws batches of one token a request (decode), of equal lengths, and ragged ones, whose lengths seek the edges of `extents(tile)`: empty
    requests in any place, one token, and several tiles. `difftest.ragged.query_start_loc_tensor` makes the start locations.

    Shrinks towards `min_requests` empty requests.

    Raises:
        InvalidStrategy: when an argument is not an int in its range or `min_requests` is above `max_requests`.

    """
    for name, value in (("min_requests", min_requests), ("max_requests", max_requests), ("max_tokens", max_tokens)):
        check_int("query_start_locs", name, value, low=0)
    check_order("query_start_locs", "min_requests", min_requests, "max_requests", max_requests)
    if tile is not None:
        check_int("query_start_locs", "tile", tile, low=1)
    return _lengths(min_requests, max_requests, max_tokens, tile)


def context_parallel(*, block_size: int, worlds: tuple[int, ...] = (1, 2, 4, 8)) -> st.SearchStrategy[tuple[int, int, int]]:
    """Return a strategy for `(world, rank, interleave)`: ranks that share a context, one of them, and tokens a rank takes in turn.

    `interleave` divides `block_size`; rank is from 0 to world - 1. Shrinks towards `(worlds[0], 0, 1)`.

    Raises:
        InvalidStrategy: when `block_size` or a world is not an int of at least 1, or there is no world.

    """
    check_int("context_parallel", "block_size", block_size, low=1)
    if not worlds:
        raise InvalidStrategy("context_parallel: worlds is empty: nothing to draw; give numbers of ranks such as (1, 2)")
    for world in worlds:
        check_int("context_parallel", "worlds", world, low=1)
    interleaves = [divisor for divisor in range(1, block_size + 1) if block_size % divisor == 0]
    ranks = st.sampled_from(worlds).flatmap(lambda world: st.tuples(st.just(world), st.sampled_from(range(world))))
    return st.builds(lambda ranked, interleave: (*ranked, interleave), ranks, st.sampled_from(interleaves))


def _lengths(min_requests: int, max_requests: int, max_tokens: int, tile: int | None) -> st.SearchStrategy[tuple[int, ...]]:
    length = extents(tile, max_value=max_tokens)
    drawn = st.lists(length, min_size=min(min_requests, _MAX_RAGGED), max_size=min(max_requests, _MAX_RAGGED))
    ragged = drawn.map(lambda lengths: _within(lengths, max(min_requests, len(lengths)), max_tokens))
    equal = _equal(min_requests, max_requests, max_tokens, extents(tile, max_value=max_tokens // max(min_requests, 1)))
    kinds = [ragged, ragged, equal]
    if min_requests <= max_tokens:
        kinds.append(extents(min_value=min_requests, max_value=min(max_requests, max_tokens)).map(lambda requests: (1,) * requests))
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


def _within(lengths: list[int], requests: int, max_tokens: int) -> tuple[int, ...]:
    """Return the lengths, repeated for so many requests, each cut to what is left of the tokens: so no draw depends on an earlier one."""
    turns = -(-requests // max(len(lengths), 1))
    left, cut = max_tokens // max(turns, 1), []
    for length in lengths:
        cut.append(min(length, left))
        left -= cut[-1]
    return tuple((cut * turns)[:requests])


@st.composite
def _equal(draw: st.DrawFn, min_requests: int, max_requests: int, max_tokens: int, lengths: st.SearchStrategy[int]) -> tuple[int, ...]:
    length = draw(lengths)
    return (length,) * draw(extents(min_value=min_requests, max_value=min(max_requests, max_tokens // length) if length else max_requests))


def _often_zero(most: int) -> st.SearchStrategy[int]:
    """Draw 0 in half of the draws."""
    return st.one_of(st.just(0), extents(max_value=most)) if most else st.just(0)

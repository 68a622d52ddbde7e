"""Ways to be wrong: each turns an expected output into one that a broken kernel might give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from difftest.dtypes import bits_of
from difftest.ulps import from_ordered, ordered, ulp

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHER_DTYPE = {torch.float32: torch.float64, torch.int64: torch.int32}
# Where a tile or a pair of rows is looked for: enough to find one that changes something, few enough to be quick.
_PLACES = 8


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One output as it should be, and what is known of it.

    `expected` is the golden answer rounded to the output dtype; `original` what the output held before the launch, for one in place;
    `limit` the largest error that one element may have, in ULPs of `max(|golden|, scale)`, 0 for exact.
    """

    expected: torch.Tensor
    golden: torch.Tensor
    baseline: torch.Tensor
    scale: torch.Tensor | None = None
    original: torch.Tensor | None = None
    inputs: tuple[torch.Tensor, ...] = ()
    tile_rows: int | None = None
    limit: float = 0.0


def wrong_outputs(one: Expected) -> Iterator[tuple[str, torch.Tensor | None]]:
    """Yield each kind with a wrong output, or None where it does not apply: where it would equal what is expected, bit for bit."""
    for kind, make in _KINDS.items():
        yield kind, _first_that_differs(make(one), one.expected) if one.expected.numel() else None


def _zeros(one: Expected) -> Iterator[torch.Tensor]:
    yield torch.zeros_like(one.expected)


def _constant(one: Expected) -> Iterator[torch.Tensor]:
    yield one.expected.reshape(-1)[:1].expand(one.expected.numel()).reshape(one.expected.shape).contiguous()


def _copy_of_an_input(one: Expected) -> Iterator[torch.Tensor]:
    for value in one.inputs:
        if value.shape == one.expected.shape and value.dtype == one.expected.dtype:
            yield value


def _nothing_done(one: Expected) -> Iterator[torch.Tensor]:
    if one.original is not None:
        yield one.original


def _tile_dropped(one: Expected) -> Iterator[torch.Tensor]:
    """Yield the output with one block of rows left as it was: at its original where it is in place, else zero."""
    rows = _rows(one)
    height = min(one.tile_rows or max(1, rows // 4), rows)
    for start in list(range(0, rows, height))[-_PLACES:] if height else ():
        left = torch.zeros_like(one.expected) if one.original is None else one.original
        yield torch.cat((one.expected[:start], left[start : start + height], one.expected[start + height :]))


def _rows_swapped(one: Expected) -> Iterator[torch.Tensor]:
    rows = _rows(one)
    for place in range(min(rows // 2, _PLACES)):
        order = torch.arange(rows, device=one.expected.device)
        order[place], order[rows - 1 - place] = rows - 1 - place, place
        yield one.expected[order]


def _last_row_stale(one: Expected) -> Iterator[torch.Tensor]:
    if _rows(one) > 1:
        yield torch.cat((one.expected[:-1], one.expected[-2:-1]))


def _one_nan(one: Expected) -> Iterator[torch.Tensor]:
    index = _finite_element(one)
    if index is not None:
        yield _with_element(one.expected, index, torch.full((1,), float("nan"), device=one.expected.device).to(one.expected.dtype))


def _just_past_the_limit(one: Expected) -> Iterator[torch.Tensor]:
    """Yield the output with one element at the first representable value whose error is over the limit; for integers 1 off."""
    values = one.expected.reshape(-1)
    if not one.expected.dtype.is_floating_point:
        yield _with_element(one.expected, values.numel() // 2, values[values.numel() // 2] ^ 1)
        return
    index = _finite_element(one)
    if index is not None and (wrong := _past(one, index, values[index : index + 1])) is not None:
        yield _with_element(one.expected, index, wrong)


def _another_dtype(one: Expected) -> Iterator[torch.Tensor]:
    other = torch.float32 if one.expected.dtype.is_floating_point else torch.int64
    yield one.expected.to(_OTHER_DTYPE.get(one.expected.dtype, other))


def _another_shape(one: Expected) -> Iterator[torch.Tensor]:
    """Yield the output with its first and last dimension swapped; a vector or a number as a row of a table."""
    yield one.expected.transpose(0, -1).contiguous() if one.expected.dim() > 1 else one.expected.reshape(1, -1)


_KINDS = {
    "zeros": _zeros,
    "a constant": _constant,
    "a copy of an input": _copy_of_an_input,
    "nothing done": _nothing_done,
    "one tile dropped": _tile_dropped,
    "two rows swapped": _rows_swapped,
    "last row stale": _last_row_stale,
    "one element NaN": _one_nan,
    "error just past the limit": _just_past_the_limit,
    "another dtype": _another_dtype,
    "another shape": _another_shape,
}


def _first_that_differs(candidates: Iterator[torch.Tensor], expected: torch.Tensor) -> torch.Tensor | None:
    return next((one for one in candidates if not _same(one, expected)), None)


def _same(one: torch.Tensor, expected: torch.Tensor) -> bool:
    if one.shape != expected.shape or one.dtype != expected.dtype:
        return False
    return torch.equal(bits_of(one), bits_of(expected)) if one.dtype.is_floating_point else torch.equal(one, expected)


def _rows(one: Expected) -> int:
    return one.expected.shape[0] if one.expected.dim() else 0


def _finite_element(one: Expected) -> int | None:
    """Return the flat index of an element that is finite by all accounts, from the middle on; None when there is none."""
    if not one.expected.dtype.is_floating_point:
        return None
    finite = one.expected.to(torch.float64).isfinite() & one.golden.isfinite() & one.baseline.to(torch.float64).isfinite()
    places = finite.reshape(-1).nonzero()
    return int(places[len(places) // 2]) if len(places) else None


def _with_element(values: torch.Tensor, index: int, value: torch.Tensor) -> torch.Tensor:
    changed = values.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[index : index + 1].copy_(value)
    return changed


def _past(one: Expected, index: int, start: torch.Tensor) -> torch.Tensor | None:
    """Return the representable value nearest to zero, on the far side of `start`, whose error is over the limit.

    Found by halving over the order of the representable values. None where that lies beyond the range of the dtype.
    """
    golden = one.golden.reshape(-1)[index : index + 1]
    magnitude = golden.abs() if one.scale is None else torch.maximum(golden.abs(), one.scale.reshape(-1)[index : index + 1])
    unit, origin = ulp(magnitude, start.dtype), ordered(start)
    direction = 1 if float(golden) >= 0 else -1
    largest = ordered(torch.full_like(start, torch.finfo(start.dtype).max))
    low, high = 0, int(largest) - abs(int(origin))

    def over(steps: int) -> bool:
        value = from_ordered(origin + direction * steps, start.dtype)
        return bool((value.to(torch.float64) - golden).abs() / unit > one.limit)

    if high <= 0 or not over(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if over(middle) else (middle, high)
    return from_ordered(origin + direction * high, start.dtype)

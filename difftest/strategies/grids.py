"""`patch_grids` and `scales`: the shapes of images and videos in patches, and the ratios by which grids are interpolated."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from difftest.errors import InvalidStrategy
from difftest.strategies.arguments import check_int, check_order
from difftest.strategies.edges import extents

_TINY = (1e-8, 2.0**-126, 1e-40, 2.0**-149)
"""Small, the smallest normal float32, a subnormal one, and the smallest of all."""

_NOT_FLOAT32 = (0.1, 1 / 3, 2 / 3, 0.7, 1 - 2.0**-26, 1 + 2.0**-26, math.pi)
"""Not representable in float32: rounded once when a launch passes them."""


def patch_grids(
    *, merge: int = 1, min_t: int = 0, max_t: int = 4, max_side: int = 64, max_rows: int | None = None
) -> st.SearchStrategy[tuple[int, int, int]]:
    """Return a strategy for `(t, h, w)`: frames, and sides in patches that are multiples of `merge` from `merge` to `max_side`.

    Draws square grids, grids with h != w, and thin ones, where one side is `merge` (1 when `merge` is 1); t is 1, 0 or more. `max_rows`
    bounds t * h * w, counting at least one frame. Shrinks towards one frame of `merge` x `merge` patches.

    Raises:
        InvalidStrategy: when an argument is not an int or no grid fits the bounds.

    """
    _check_grid(merge, min_t, max_t, max_side, max_rows)
    return _patch_grids(merge, _frames(min_t, max_t, None if max_rows is None else max_rows // merge**2), max_side // merge, max_rows)


def scales(*, max_value: float = 64.0, max_extent: int = 64) -> st.SearchStrategy[float]:
    """Return a strategy for interpolation scales, Python floats from 0.0 to `max_value`.

    Draws 0.0; 1.0; the ratios (n - 1) / (m - 1) of grids of at most `max_extent`; values that float32 cannot represent; tiny ones down to
    the smallest float32; and any float of the range. Shrinks towards 0.0, then 1.0.

    Raises:
        InvalidStrategy: when `max_value` is negative or not finite, or `max_extent` is below 2.

    """
    check_int("scales", "max_extent", max_extent, low=2)
    if not (isinstance(max_value, (int, float)) and 0 <= max_value < math.inf):
        raise InvalidStrategy(f"scales: max_value={max_value!r} is not a finite number from 0 up; give the largest scale of the kernel")
    listed = [value for value in (0.0, 1.0, *_NOT_FLOAT32, *_TINY) if value <= max_value]
    ratios = _ratios(float(max_value), max_extent)
    return st.one_of(st.sampled_from(listed), ratios, st.floats(0.0, float(max_value), allow_nan=False, allow_infinity=False))


@st.composite
def _ratios(draw: st.DrawFn, max_value: float, max_extent: int) -> float:
    """Draw (n - 1) / (m - 1), rounded once to float64."""
    steps_out = draw(extents(min_value=1, max_value=max_extent - 1))
    steps_in = draw(extents(max_value=min(max_extent - 1, math.floor(max_value * steps_out))))
    return steps_in / steps_out


@st.composite
def _patch_grids(
    draw: st.DrawFn, merge: int, frames: tuple[int, ...], max_blocks: int, max_rows: int | None
) -> tuple[int, int, int]:
    t = draw(st.sampled_from(frames))
    budget = max_blocks**2 if max_rows is None else max_rows // (max(t, 1) * merge**2)
    shape = draw(st.sampled_from(("square", "free", "free", "thin")))
    first_limit = math.isqrt(budget) if shape == "square" else 1 if shape == "thin" else budget
    first = draw(extents(min_value=1, max_value=min(max_blocks, first_limit)))
    second = first if shape == "square" else draw(extents(min_value=1, max_value=min(max_blocks, budget // first)))
    if shape != "square" and draw(st.booleans()):
        first, second = second, first
    return t, merge * first, merge * second


def _frames(min_t: int, max_t: int, most: int | None) -> tuple[int, ...]:
    """Return the numbers of frames to draw from: 1 first, because one frame is what a person writes and none compares nothing."""
    limit = max_t if most is None else min(max_t, max(most, 1))
    preferred = [t for t in (1, 0, 2, 3, limit) if min_t <= t <= limit]
    return tuple(dict.fromkeys([*preferred, *range(min_t, min(limit, min_t + 64) + 1)]))


def _check_grid(merge: int, min_t: int, max_t: int, max_side: int, max_rows: int | None) -> None:
    check_int("patch_grids", "merge", merge, low=1)
    check_int("patch_grids", "min_t", min_t, low=0)
    check_int("patch_grids", "max_t", max_t, low=0)
    check_int("patch_grids", "max_side", max_side)
    check_order("patch_grids", "min_t", min_t, "max_t", max_t)
    check_order("patch_grids", "merge", merge, "max_side", max_side)
    smallest = max(min_t, 1) * merge**2
    if max_rows is not None and (type(max_rows) is not int or max_rows < smallest):
        raise InvalidStrategy(f"patch_grids: max_rows={max_rows!r} leaves no room for the smallest grid; give max_rows >= {smallest}")

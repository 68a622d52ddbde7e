"""`position_ids`: descriptors of the positions of text, images and videos."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

from difftest.case import Case
from difftest.strategies.arguments import check_int
from difftest.strategies.edges import extents

_KINDS = ("text", "image", "image", "video", "scatter", "mixture", "mixture", "mixture")
"""Text alone is one draw in eight: with equal planes a kernel that mixes up its planes is right."""

_IN_MIXTURES = ("text", "image", "video", "gap", "reset", "repeat", "scatter")


def position_ids(
    *, max_position: int, max_side: int = 8, max_runs: int = 4, max_length: int = 33, text_1d: bool = False
) -> st.SearchStrategy[Case]:
    """Return a strategy for descriptors of ids in `[0, max_position)`; `difftest.position_ids.position_ids_tensor` makes the tensor.

    Draws `Case(planes=3, max_position=..., start=(t, h, w), runs=(...))`. A run is one of

    - `Case(kind="text", length=n)`: all planes advance
    - `Case(kind="image", h=h, w=w)`: the time plane stands still
    - `Case(kind="video", t=t, h=h, w=w)`
    - `Case(kind="repeat", length=n)`: n tokens at one position
    - `Case(kind="scatter", length=n)`: n tokens at positions of the seed, each plane its own
    - `Case(kind="gap", length=n)`: n positions skipped, no token
    - `Case(kind="reset")`: back to 0, as where a new request starts

    and the runs are repeated until all tokens have a position. Text alone, with equal planes, is about one draw in eight; in the others the
    planes start apart (where `max_position` allows), so that already the first token tells them apart. With `text_1d` some draws have
    `planes=1`: a single plane of text.

    Shrinks towards one run of one text token from `start=(0, 0, 0)`.

    Raises:
        InvalidStrategy: when an argument is not an int of at least 1.

    """
    limits = {"max_position": max_position, "max_side": max_side, "max_runs": max_runs, "max_length": max_length}
    for name, value in limits.items():
        check_int("position_ids", name, value, low=1)
    kinds = (*_KINDS, "text_1d", "text_1d") if text_1d else _KINDS
    runs = {kind: _run(kind, max_side, max_length) for kind in _IN_MIXTURES}
    more = st.lists(st.sampled_from(_IN_MIXTURES).flatmap(runs.__getitem__), max_size=max_runs - 1)
    return _position_ids(st.sampled_from(kinds), max_position, runs, more)


@st.composite
def _position_ids(
    draw: st.DrawFn,
    kinds: st.SearchStrategy[str],
    max_position: int,
    runs: dict[str, st.SearchStrategy[Case]],
    more: st.SearchStrategy[list[Case]],
) -> Case:
    kind = draw(kinds)
    is_text = kind in ("text", "text_1d")
    start = draw(_equal_starts(max_position) if is_text else _different_starts(max_position))
    first = draw(runs["text" if is_text else "image" if kind == "mixture" else kind])
    others = draw(more) if kind == "mixture" else []
    return Case(planes=1 if kind == "text_1d" else 3, max_position=max_position, start=start, runs=(first, *others))


def _run(kind: str, max_side: int, max_length: int) -> st.SearchStrategy[Case]:
    length, side = extents(min_value=1, max_value=max_length), extents(min_value=1, max_value=max_side)
    fields = {"image": {"h": side, "w": side}, "video": {"t": side, "h": side, "w": side}, "reset": {}}.get(kind, {"length": length})
    return st.builds(Case, kind=st.just(kind), **fields)


@functools.lru_cache(maxsize=256)
def _equal_starts(max_position: int) -> st.SearchStrategy[tuple[int, int, int]]:
    return _starts(max_position).map(lambda start: (start, start, start))


@functools.lru_cache(maxsize=256)
def _different_starts(max_position: int) -> st.SearchStrategy[tuple[int, int, int]]:
    """Draw three starts that differ, as far as there are positions: steps from one plane to the next, around the end."""
    most = (max_position - 1) // 2
    step = extents(min_value=1, max_value=most) if most else st.just(max_position - 1)

    def starts(start: int, up: int, upper: int) -> tuple[int, int, int]:
        return start, (start + up) % max_position, (start + up + upper) % max_position

    return st.builds(starts, _starts(max_position), step, step)


def _starts(max_position: int) -> st.SearchStrategy[int]:
    return extents(max_value=max_position - 1)

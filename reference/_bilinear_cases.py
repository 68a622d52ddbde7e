"""The launches that bilinear interpolation is tested with: table and grid sizes, dtypes, fills, and the real models' images and videos."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from difftest.case import Case
from difftest.dtypes import dtype_named
from difftest.strategies import extents, fills, layouts, patch_grids, seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import torch

    from difftest.tensors import Tensors

DTYPES = ("float32", "bfloat16", "float16", "float32_to_bfloat16", "bfloat16_to_float32")

_TABLES = (
    (4, 1, 8),
    (5, 1, 33),
    (1, 2, 8),
    (16, 3, 72),
    (32, 4, 96),
    (2, 1, 1280),
    (48, 2, 33),
    (9, 2, 1024),
    (48, 2, 1152),
)
"""(cells a side, merge size, hidden size): each is a compile key, so there are few. The last is a real one; `examples` has them all."""

_MAX_ELEMENTS = 1 << 16
_MAX_SIDE = 256

_HIDDEN = {"Qwen3-VL-2B": 1024, "Qwen3-VL-4B": 1024, "Qwen3-VL-8B": 1152, "Qwen3-VL-30B-A3B": 1152}
_IMAGES = (
    ("Qwen3-VL-2B", (4, 4)),
    ("Qwen3-VL-8B", (14, 14)),
    ("Qwen3-VL-4B", (8, 16)),
    ("Qwen3-VL-30B-A3B", (14, 20)),
    ("Qwen3-VL-2B", (16, 16)),
    ("Qwen3-VL-8B", (18, 24)),
    ("Qwen3-VL-4B", (32, 32)),
    ("Qwen3-VL-30B-A3B", (32, 48)),
    ("Qwen3-VL-2B", (48, 48)),
    ("Qwen3-VL-8B", (60, 80)),
    ("Qwen3-VL-4B", (128, 128)),
)
_VIDEO = ("Qwen3-VL-8B", (4, 6))

_TALLEST = {"float32": 48, "bfloat16": 128}
"""Height of the largest image, 24 for the other dtypes: bfloat16, in which the models are served, has them all."""

_FRAMES = {"bfloat16": 1024}
"""Frames of the video, 64 for the other dtypes."""


@st.composite
def cases(draw: st.DrawFn, dtype: str) -> Case:
    """Draw a table, a patch grid that may be the table's own, a fill and a layout; shrinks towards one patch of a 4 x 4 table."""
    num_grid, merge, hidden = draw(st.sampled_from(_TABLES))
    t, h, w = draw(_grids(num_grid, merge, _MAX_ELEMENTS // hidden))
    return Case(
        dtype=dtype,
        t=t,
        h=h,
        w=w,
        num_grid=num_grid,
        merge=merge,
        hidden=hidden,
        fill=draw(fills(nonfinite=True)),
        layout=draw(layouts(max_row_gap=0)),
        seed=draw(seeds()),
    )


@functools.cache
def _grids(num_grid: int, merge: int, max_rows: int) -> st.SearchStrategy[tuple[int, int, int]]:
    """Return a strategy of grids; one in eight is the table itself, which makes the interpolation a gather, where that is not too large."""
    drawn = patch_grids(merge=merge, min_t=1, max_t=4, max_side=_MAX_SIDE, max_rows=max_rows)
    if num_grid % merge or num_grid**2 > max_rows:
        return drawn
    itself = extents(min_value=1, max_value=min(2, max_rows // num_grid**2)).map(lambda t: (t, num_grid, num_grid))
    return st.integers(0, 7).flatmap(lambda choice: itself if choice == 7 else drawn)


def table(case: Case, tensors: Tensors) -> torch.Tensor:
    """Return the table of a case, `(num_grid * num_grid, hidden)`."""
    shape = (case.num_grid**2, case.hidden)
    return tensors.floats("weight", shape, table_and_output(case.dtype)[0], fill=case.fill, layout=case.layout)


def table_and_output(cell: str) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtypes of a cell such as "float32_to_bfloat16"; "float32" is the dtype of both."""
    table_name, _, output_name = cell.partition("_to_")
    return dtype_named(table_name), dtype_named(output_name or table_name)


def examples(dtype: str) -> Mapping[str, Case]:
    """Return the images and the video of the Qwen3-VL models, with the tables' usual spread of 0.25, and a video of no frame."""
    tallest, frames = _TALLEST.get(dtype, 24), _FRAMES.get(dtype, 64)
    images = {f"{model} {h}x{w}": _real(dtype, model, 1, h, w) for model, (h, w) in _IMAGES if h <= tallest}
    model, (h, w) = _VIDEO
    return {**images, f"{model} {frames} frames of {h}x{w}": _real(dtype, model, frames, h, w), "no frame": _real(dtype, model, 0, h, w)}


def _real(dtype: str, model: str, t: int, h: int, w: int) -> Case:
    sizes = {"num_grid": 48, "merge": 2, "hidden": _HIDDEN[model]}
    fill = Case(regime="normal", scale=0.25)
    return Case(dtype=dtype, t=t, h=h, w=w, **sizes, fill=fill, layout=Case(offset=0, row_gap=0), seed=0)


def cut(case: Case, limit: int) -> Case:
    """Return the case with fewer frames, at least one of those it has: grid and table stay."""
    frames = max(limit // max(case.h * case.w * case.hidden, 1), 1)
    return case.replace(t=min(case.t, frames))


def is_finite(case: Case) -> bool:
    """Return whether the table of a case is finite."""
    return case.fill != "nonfinite"


def through_classes(side: str) -> Callable[[Case], Iterable[Case]]:
    """Return what moves h or w of a case through the classes of its domain: 1 (where patches are not merged), multiple of 16, other."""

    def moved(case: Case) -> Iterable[Case]:
        aligned = math.lcm(case.merge, 16)
        for value in (case.merge, aligned, aligned + case.merge):
            yield case.replace(t=max(case.t, 1), **{side: value})

    return moved

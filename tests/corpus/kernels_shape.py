"""Shapes: expand, broadcast, reshape, transpose, join, split, interleave, cat, flip, sort, gather."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from corpus.entry import Entry, empty
from corpus.values import floats, integers, singles

R = tl.constexpr(8)
C = tl.constexpr(16)


@triton.jit
def grid_offsets(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    start = tl.program_id(0) * ROWS * COLUMNS
    return start + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]


@triton.jit
def line_offsets(N: tl.constexpr):
    return tl.program_id(0) * N + tl.arange(0, N)


@triton.jit
def outer_kernel(x_ptr, y_ptr, z_ptr):
    x = tl.load(x_ptr + line_offsets(R))
    y = tl.load(y_ptr + line_offsets(C))
    tl.store(z_ptr + grid_offsets(R, C), x[:, None] * y[None, :] + tl.broadcast_to(y[None, :], (R, C)))


@triton.jit
def transpose_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + grid_offsets(R, C))
    tl.store(y_ptr + grid_offsets(C, R), tl.trans(x))


@triton.jit
def permute_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + line_offsets(64)).reshape(2, 4, 8)
    tl.store(y_ptr + line_offsets(64), tl.permute(x, (2, 0, 1)).reshape(64))


@triton.jit
def reshape_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + grid_offsets(R, C))
    tl.store(y_ptr + line_offsets(128), tl.ravel(x) + tl.reshape(tl.trans(x), (128,)))


@triton.jit
def join_kernel(x_ptr, y_ptr, z_ptr):
    x, y = tl.load(x_ptr + line_offsets(32)), tl.load(y_ptr + line_offsets(32))
    tl.store(z_ptr + grid_offsets(32, 2), tl.join(x, y))


@triton.jit
def interleave_kernel(x_ptr, y_ptr, z_ptr):
    x, y = tl.load(x_ptr + line_offsets(32)), tl.load(y_ptr + line_offsets(32))
    tl.store(z_ptr + line_offsets(64), tl.interleave(x, y))


@triton.jit
def cat_kernel(x_ptr, y_ptr, z_ptr):
    x, y = tl.load(x_ptr + line_offsets(32)), tl.load(y_ptr + line_offsets(32))
    # the order of a reordering cat is unspecified: only what does not depend on it is stored
    both = tl.cat(x, y, can_reorder=True)
    tl.store(z_ptr + 2 * tl.program_id(0), tl.sum(both, axis=0))
    tl.store(z_ptr + 2 * tl.program_id(0) + 1, tl.max(both * both, axis=0))


@triton.jit
def split_kernel(x_ptr, y_ptr, z_ptr):
    first, second = tl.split(tl.load(x_ptr + grid_offsets(32, 2)))
    tl.store(y_ptr + line_offsets(32), first)
    tl.store(z_ptr + line_offsets(32), second)


@triton.jit
def split_scalar_kernel(x_ptr, y_ptr):
    first, second = tl.split(tl.load(x_ptr + line_offsets(2)))
    tl.store(y_ptr + tl.program_id(0), first - 2 * second)


@triton.jit
def flip_kernel(x_ptr, y_ptr):
    tl.store(y_ptr + line_offsets(32), tl.flip(tl.load(x_ptr + line_offsets(32)), 0))


@triton.jit
def sort_kernel(x_ptr, y_ptr, DESCENDING: tl.constexpr):
    tl.store(y_ptr + line_offsets(32), tl.sort(tl.load(x_ptr + line_offsets(32)), descending=DESCENDING))


@triton.jit
def sort_rows_kernel(x_ptr, y_ptr):
    tl.store(y_ptr + grid_offsets(R, C), tl.sort(tl.load(x_ptr + grid_offsets(R, C))))


@triton.jit
def topk_kernel(x_ptr, y_ptr):
    tl.store(y_ptr + line_offsets(4), tl.topk(tl.load(x_ptr + line_offsets(32)), 4))


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr):
    x, index = tl.load(x_ptr + line_offsets(32)), tl.load(index_ptr + line_offsets(64))
    tl.store(y_ptr + line_offsets(64), tl.gather(x, index, 0))


@triton.jit
def gather_rows_kernel(x_ptr, index_ptr, y_ptr, AXIS: tl.constexpr):
    x, index = tl.load(x_ptr + grid_offsets(R, C)), tl.load(index_ptr + grid_offsets(R, C))
    tl.store(y_ptr + grid_offsets(R, C), tl.gather(x, index, AXIS))


@triton.jit
def full_kernel(y_ptr, value):
    y = tl.full((R, C), 7, dtype=y_ptr.dtype.element_ty) + value.to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + grid_offsets(R, C), y - tl.zeros((1, C), dtype=y_ptr.dtype.element_ty))


PROGRAMS = 4


def _entry(name: str, kernel: Any, inputs: tuple, outputs: tuple[tuple[str, int], ...], covers: str, **constexprs: Any) -> Entry:
    """Return an entry of 4 programs; `outputs` are (dtype, elements of one program)."""
    return Entry(
        name=name,
        kernel=kernel,
        arguments=lambda: (*inputs, *(empty(dtype, PROGRAMS * size) for dtype, size in outputs)),
        constexprs=constexprs,
        covers=tuple(covers.split()),
    )


def _moves(dtype: str) -> list[Entry]:
    """Return entries that only move elements: any bits are kept, NaN and subnormals included."""
    line, other, square = singles(dtype, 128), singles(dtype, 128, 2), singles(dtype, 512)
    return [
        _entry(f"transpose_{dtype}", transpose_kernel, (square,), ((dtype, 128),), "tt.trans"),
        _entry(f"permute_{dtype}", permute_kernel, (square,), ((dtype, 64),), "tt.trans tt.reshape"),
        _entry(f"join_{dtype}", join_kernel, (line, other), ((dtype, 64),), "tt.join"),
        _entry(f"interleave_{dtype}", interleave_kernel, (line, other), ((dtype, 64),), "tt.join tt.reshape"),
        _entry(f"split_{dtype}", split_kernel, (square,), ((dtype, 32), (dtype, 32)), "tt.split"),
        _entry(f"flip_{dtype}", flip_kernel, (line,), ((dtype, 32),), "tt.reduce arith.xori"),
    ]


def _orders(dtype: str) -> list[Entry]:
    """Return entries that compare elements: no NaN, no zeros of two signs."""
    x = integers(dtype, 512, 6, low=1, high=120)
    sorting = "tt.reduce arith.xori arith.select"
    return [
        _entry(f"sort_{dtype}", sort_kernel, (x,), ((dtype, 32),), sorting, DESCENDING=False),
        _entry(f"sort_descending_{dtype}", sort_kernel, (x,), ((dtype, 32),), sorting, DESCENDING=True),
        _entry(f"sort_rows_{dtype}", sort_rows_kernel, (x,), ((dtype, 128),), sorting),
        _entry(f"topk_{dtype}", topk_kernel, (x,), ((dtype, 4),), sorting),
    ]


def _gathers(dtype: str) -> list[Entry]:
    x = singles(dtype, 512)
    line, rows = integers("int32", 256, 7, low=0, high=32), integers("int32", 512, 8, low=0, high=8)
    columns = integers("int64", 512, 9, low=0, high=16)
    return [
        _entry(f"gather_{dtype}", gather_kernel, (x, line), ((dtype, 64),), "tt.gather"),
        _entry(f"gather_rows_{dtype}", gather_rows_kernel, (x, rows), ((dtype, 128),), "tt.gather", AXIS=0),
        _entry(f"gather_columns_{dtype}", gather_rows_kernel, (x, columns), ((dtype, 128),), "tt.gather", AXIS=1),
    ]


def _rest() -> list[Entry]:
    x, y, square = floats("float32", 32, 1), floats("float32", 64, 2), floats("float32", 512, 3)
    whole = [integers("int32", 128, salt, low=-900, high=900) for salt in (4, 5)]
    made = [
        _entry("outer_float32", outer_kernel, (x, y), (("float32", 128),), "tt.expand_dims tt.broadcast"),
        _entry("reshape_float32", reshape_kernel, (square,), (("float32", 128),), "tt.reshape"),
        _entry("cat_int32", cat_kernel, tuple(whole), (("int32", 2),), "tt.cat"),
        _entry("split_scalar_int32", split_scalar_kernel, (whole[0],), (("int32", 1),), "tt.split tt.unsplat"),
    ]
    for dtype in ("int8", "int64", "float16", "bfloat16", "float32"):
        full = Entry(name=f"full_{dtype}", kernel=full_kernel, covers=("tt.splat", "arith.constant"),
                     arguments=lambda dtype=dtype: (empty(dtype, 512), 3.5 if "float" in dtype else 3))  # fmt: skip
        made.append(full)
    return made


ENTRIES = (
    [entry for dtype in ("int8", "int32", "int64", "float16", "bfloat16", "float32") for entry in _moves(dtype)]
    + [entry for dtype in ("int32", "float16", "bfloat16", "float32") for entry in _orders(dtype)]
    + [entry for dtype in ("int32", "bfloat16", "float32", "float64") for entry in _gathers(dtype)]
    + _rest()
)

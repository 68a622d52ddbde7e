"""Reductions, scans and histograms. Sums of small whole numbers do not depend on the order; those of fractions are marked approximate."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from corpus.agreement import Policy, Positions, Ulp
from corpus.entry import FUSION_OFF, Entry, empty
from corpus.values import exact, floats, integers, singles

ROWS, COLUMNS, PROGRAMS = 4, 32, 3
SIZE = PROGRAMS * ROWS * COLUMNS


@triton.jit
def tile(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    start = tl.program_id(0) * ROWS * COLUMNS
    return start + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]


@triton.jit
def reduce_kernel(x_ptr, rows_ptr, columns_ptr, all_ptr, FN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tile(ROWS, COLUMNS))
    pid = tl.program_id(0)
    tl.store(rows_ptr + pid * ROWS + tl.arange(0, ROWS), FN(x, 1))
    tl.store(columns_ptr + pid * COLUMNS + tl.arange(0, COLUMNS), FN(x, 0))
    tl.store(all_ptr + pid, FN(tl.ravel(x), 0))


@triton.jit
def total_kernel(x_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tile(ROWS, COLUMNS))
    tl.store(y_ptr + 2 * tl.program_id(0), tl.sum(x))
    tl.store(y_ptr + 2 * tl.program_id(0) + 1, tl.max(x))


@triton.jit
def extremes_kernel(x_ptr, value_ptr, index_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tile(ROWS, COLUMNS))
    high, where_high = tl.max(x, axis=1, return_indices=True)
    low, where_low = tl.min(x, axis=1, return_indices=True)
    rows = tl.program_id(0) * 2 * ROWS + tl.arange(0, ROWS)
    tl.store(value_ptr + rows, high)
    tl.store(value_ptr + rows + ROWS, low)
    tl.store(index_ptr + rows, where_high)
    tl.store(index_ptr + rows + ROWS, where_low)


@triton.jit
def scan_kernel(x_ptr, y_ptr, FN: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tile(ROWS, COLUMNS))
    tl.store(y_ptr + tile(ROWS, COLUMNS), FN(x, AXIS, REVERSE))


@triton.jit
def recurrence(a_left, b_left, a_right, b_right):
    return a_left * a_right, b_left * a_right + b_right


@triton.jit
def recurrence_kernel(a_ptr, b_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    offsets = tile(ROWS, COLUMNS)
    _, y = tl.associative_scan((tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)), 1, recurrence)
    tl.store(y_ptr + offsets, y)


@triton.jit
def histogram_kernel(x_ptr, y_ptr, z_ptr, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    bins = tl.program_id(0) * BINS + tl.arange(0, BINS)
    tl.store(y_ptr + bins, tl.histogram(x, BINS))
    tl.store(z_ptr + bins, tl.histogram(x, BINS, mask=x % 2 == 0))


@triton.jit
def softmax_kernel(x_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tile(ROWS, COLUMNS))
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(y_ptr + tile(ROWS, COLUMNS), e / tl.sum(e, axis=1)[:, None])


@triton.jit
def take_sum(x, AXIS: tl.constexpr):
    return tl.sum(x, axis=AXIS)


@triton.jit
def take_wide_sum(x, AXIS: tl.constexpr):
    return tl.sum(x, axis=AXIS, dtype=tl.float32)


@triton.jit
def take_max(x, AXIS: tl.constexpr):
    return tl.max(x, axis=AXIS)


@triton.jit
def take_min(x, AXIS: tl.constexpr):
    return tl.min(x, axis=AXIS)


@triton.jit
def take_xor(x, AXIS: tl.constexpr):
    return tl.xor_sum(x, axis=AXIS)


@triton.jit
def take_argmax(x, AXIS: tl.constexpr):
    return tl.argmax(x, axis=AXIS)


@triton.jit
def take_argmin(x, AXIS: tl.constexpr):
    return tl.argmin(x, axis=AXIS)


@triton.jit
def product(x, y):
    return x * y


@triton.jit
def take_product(x, AXIS: tl.constexpr):
    return tl.reduce(x, AXIS, product)


@triton.jit
def running_sum(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.cumsum(x, axis=AXIS, reverse=REVERSE)


@triton.jit
def running_product(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.cumprod(x, axis=AXIS, reverse=REVERSE)


@triton.jit
def larger(x, y):
    return tl.where(x > y, x, y)


@triton.jit
def running_maximum(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.associative_scan(x, AXIS, larger, REVERSE)


TILE = {"ROWS": ROWS, "COLUMNS": COLUMNS}
ORDER = Ulp(8, "the GPU adds 32 positive numbers in its own order; each of 5 to 128 roundings counts half an ulp at most, averaged")
SCANNED = "tt.scan"
# The kernel asks tl.ravel for row-major order, but Triton's own pass lets a reshape before a reduction reorder (of bfloat16 only in 3.9),
# although argmin counts the elements. Of 2 warps, thread t = 32 * warp + lane holds columns 2 * (lane % 16) + register of row
# 2 * warp + lane // 16, and that becomes element t + 64 * register. The first of these minima is the first in either order.
HELD = tuple(t // 16 * COLUMNS + t % 16 * 2 + register for register in range(2) for t in range(64))
FLAT = {2: Positions(HELD, "tt.reshape allow_reorder: the order of the elements, and so their indices, are those of the layout")}


def _reduce(name: str, fn: Any, x: Any, out: str, *, warps: int = 4, policy: Policy | None = None, **fields: Any) -> Entry:
    judged = fields if policy is None else {"policy": policy, **fields}
    return Entry(
        name=name, kernel=reduce_kernel, grid=(PROGRAMS,), covers=("tt.reduce",), constexprs={"FN": fn, **TILE},
        arguments=lambda: (x, empty(out, PROGRAMS, ROWS), empty(out, PROGRAMS, COLUMNS), empty(out, PROGRAMS)),
        options={**FUSION_OFF, "num_warps": warps}, **judged,
    )  # fmt: skip


def _of_dtype(dtype: str) -> list[Entry]:
    high = 3 if dtype == "bfloat16" else 9  # a bfloat16 sum is exact up to 256
    whole = integers(dtype, SIZE, 3, low=0, high=high)
    any_value = singles(dtype, SIZE) if dtype in ("int32", "int64", "uint8") else floats(dtype, SIZE, 4) if "float" in dtype else whole
    widened = dtype in ("int8", "uint8", "int16")
    total = "int32" if widened and dtype != "uint8" else "uint32" if widened else dtype
    return [
        _reduce(f"sum_{dtype}", take_sum, whole, total),
        _reduce(f"max_{dtype}", take_max, any_value, dtype),
        _reduce(f"min_{dtype}", take_min, any_value, dtype, warps=1),
        _reduce(f"argmax_{dtype}", take_argmax, any_value, "int32"),
        _reduce(f"argmin_ties_{dtype}", take_argmin, whole, "int32", warps=2, policies={} if dtype == "bfloat16" else FLAT),
    ]


def _scans(dtype: str) -> list[Entry]:
    whole = integers(dtype, SIZE, 5, low=0, high=4)
    signs = integers(dtype, SIZE, 6, low=0, high=2) * 2 - 1
    made = []
    for name, fn, x in (("cumsum", running_sum, whole), ("cumprod", running_product, signs), ("scan_max", running_maximum, whole)):
        for axis, reverse in ((1, False), (0, False), (1, True)):
            out = "int32" if dtype == "int8" and name == "cumsum" else dtype
            made.append(Entry(
                name=f"{name}_{dtype}_{axis}{'_reverse' * reverse}", kernel=scan_kernel, grid=(PROGRAMS,), covers=(SCANNED,),
                arguments=lambda x=x, out=out: (x, empty(out, SIZE)), constexprs={"FN": fn, "AXIS": axis, "REVERSE": reverse, **TILE},
            ))  # fmt: skip
    return made


def _approximate() -> list[Entry]:
    positive = {d: floats(d, SIZE, 7, span=3, signed=False) for d in ("float16", "bfloat16", "float32", "float64")}
    made = [_reduce(f"sum_order_{d}", take_sum, x, d, policy=ORDER) for d, x in positive.items()]
    made.append(_reduce("sum_wide_bfloat16", take_wide_sum, positive["bfloat16"], "float32", policy=ORDER))
    softmax = Entry(name="softmax_float32", kernel=softmax_kernel, grid=(PROGRAMS,), constexprs=TILE, covers=("tt.reduce", "math.exp"),
                    arguments=lambda: (floats("float32", SIZE, 8, span=2), empty("float32", SIZE)),
                    policy=Ulp(24, "exp of differences up to 8, a sum in another order, an approximate division"))  # fmt: skip
    return [*made, softmax]


def _rest() -> list[Entry]:
    special = singles("float32", SIZE).abs()
    signs = integers("int32", SIZE, 9, low=0, high=2) * 2 - 1
    halves = exact("float32", [0.5, 1.0, 2.0, 1.0] * (SIZE // 4))
    steps = integers("float32", SIZE, 10, low=0, high=4)
    counted = integers("int32", 4 * 64, 11, low=0, high=16)
    return [
        _reduce("max_with_nan_float32", take_max, special, "float32"),
        _reduce("xor_int32", take_xor, singles("int32", SIZE), "int32"),
        _reduce("product_int32", take_product, signs * 3, "int32"),
        Entry(name="sum_all_int32", kernel=total_kernel, grid=(PROGRAMS,), constexprs=TILE, covers=("tt.reduce", "tt.reshape"),
              arguments=lambda: (singles("int32", SIZE), empty("int32", 2 * PROGRAMS))),
        Entry(name="extremes_float32", kernel=extremes_kernel, grid=(PROGRAMS,), constexprs=TILE, covers=("tt.reduce",),
              arguments=lambda: (steps, empty("float32", 2 * ROWS * PROGRAMS), empty("int32", 2 * ROWS * PROGRAMS))),
        Entry(name="recurrence_float32", kernel=recurrence_kernel, grid=(PROGRAMS,), constexprs=TILE, covers=(SCANNED,),
              arguments=lambda: (halves, steps, empty("float32", SIZE))),
        Entry(name="histogram_int32", kernel=histogram_kernel, constexprs={"N": 64, "BINS": 16}, covers=("tt.histogram",),
              arguments=lambda: (counted, empty("int32", 64), empty("int32", 64))),
        Entry(name="histogram_out_of_range_int32", kernel=histogram_kernel, constexprs={"N": 64, "BINS": 4}, covers=("tt.histogram",),
              arguments=lambda: (counted - 3, empty("int32", 16), empty("int32", 16))),
    ]  # fmt: skip


ENTRIES = (
    [e for d in ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64") for e in _of_dtype(d)]
    + [e for d in ("int8", "int32", "int64", "float16", "bfloat16", "float32") for e in _scans(d)]
    + _approximate()
    + _rest()
)

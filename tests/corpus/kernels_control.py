"""Control flow that diverges between programs: for, while, if, early return, nested loops, calls that are not inlined."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from corpus.entry import FUSION_OFF, Entry, empty
from corpus.values import floats, integers

PROGRAMS, BLOCK = 8, 32


@triton.jit
def for_kernel(x_ptr, trips_ptr, y_ptr, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * BLOCK + lanes)
    for step in range(tl.load(trips_ptr + pid)):
        x = x * 3 + step
    tl.store(y_ptr + pid * BLOCK + lanes, x)


@triton.jit
def for_bounds_kernel(trips_ptr, y_ptr, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    first = tl.load(trips_ptr + pid)
    upwards, downwards = lanes, lanes
    for i in range(first, 3 * pid + 1, 2):
        upwards = upwards * 5 + i
    for i in range(first, -pid, -1):
        downwards = downwards * 7 - i
    tl.store(y_ptr + pid * BLOCK + lanes, upwards ^ downwards)


@triton.jit
def for_store_kernel(trips_ptr, y_ptr, WIDTH: tl.constexpr):
    pid = tl.program_id(0)
    for i in range(tl.load(trips_ptr + pid)):
        tl.store(y_ptr + pid * WIDTH + i, i * i - pid, mask=i < WIDTH)


@triton.jit
def static_range_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for i in tl.static_range(4):
        total += tl.load(x_ptr + (pid * BLOCK + lanes + i) % (8 * BLOCK)) * (i + 1)
    for i in tl.range(0, pid, num_stages=2, loop_unroll_factor=2):
        total += i
    tl.store(y_ptr + pid * BLOCK + lanes, total)


@triton.jit
def while_kernel(x_ptr, y_ptr):
    pid = tl.program_id(0)
    x, steps = tl.load(x_ptr + pid), 0
    while x > 1:
        x = tl.where(x % 2 == 0, x // 2, 3 * x + 1)
        steps += 1
    tl.store(y_ptr + pid, steps)


@triton.jit
def while_tensor_kernel(x_ptr, y_ptr, limit, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * BLOCK + lanes)
    rounds = 0
    while (tl.max(x, axis=0) < limit) & (rounds < 2 * pid + 1):
        x = x * 2 + lanes
        rounds += 1
    tl.store(y_ptr + pid * BLOCK + lanes, x + rounds)


@triton.jit
def if_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * BLOCK + lanes)
    if pid % 3 == 0:
        x = x + 100
        tl.store(y_ptr + pid * 2 * BLOCK + lanes, x)
    elif tl.sum(x, axis=0) > 0:
        x = -x
    else:
        x = x * x
    tl.store(y_ptr + (pid * 2 + 1) * BLOCK + lanes, x)


@triton.jit
def ternary_expression_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    scale = 2.0 if pid < 4 else 0.5
    tl.store(y_ptr + pid * BLOCK + lanes, tl.load(x_ptr + pid * BLOCK + lanes) * scale)


@triton.jit
def early_return_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    if pid >= n:
        return
    x = tl.load(x_ptr + pid * BLOCK + lanes)
    if tl.load(x_ptr + pid * BLOCK) < 0:
        tl.store(y_ptr + pid * BLOCK + lanes, -x)
        return
    tl.store(y_ptr + pid * BLOCK + lanes, x + pid)


@triton.jit
def nested_kernel(trips_ptr, y_ptr, BLOCK: tl.constexpr):
    pid, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    total = lanes
    for i in range(tl.load(trips_ptr + pid)):
        if i % 2 == pid % 2:
            j = i
            while j > 0:
                total = total * 3 + j
                j = j // 2 - pid % 2
        else:
            for k in range(i):
                total = total ^ (k << 2)
    tl.store(y_ptr + pid * BLOCK + lanes, total)


@triton.jit(noinline=True)
def scaled(x, y):
    return x * 2 - y


@triton.jit(noinline=True)
def put(pointer, value):
    tl.store(pointer, value)


@triton.jit(noinline=True)
def branching(x, limit):
    if x > limit:
        return x - limit
    return -x


@triton.jit
def call_kernel(x_ptr, y_ptr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    put(y_ptr + 2 * pid, scaled(x, scaled(pid, 3)))
    if pid % 2 == 0:
        put(y_ptr + 2 * pid + 1, branching(x, 10))


@triton.jit
def three_axes_kernel(y_ptr, width, height):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(y_ptr + place, x * 100 + y * 10 + z + width * height)


def _entry(name: str, kernel: Any, inputs: tuple, outputs: tuple, covers: str, **fields: Any) -> Entry:
    """Return an entry of 8 programs; the BLOCK constexpr is given where the kernel has one."""
    constexprs = fields.pop("constexprs", {"BLOCK": BLOCK})
    return Entry(
        name=name,
        kernel=kernel,
        arguments=lambda: (*inputs, *(empty(*output) for output in outputs[:1]), *outputs[1:]),
        grid=fields.pop("grid", (PROGRAMS,)),
        constexprs=constexprs,
        covers=tuple(covers.split()),
        options=fields.pop("options", FUSION_OFF),
    )


def _entries() -> list[Entry]:
    lanes, line = PROGRAMS * BLOCK, integers("int32", PROGRAMS, 2, low=-40, high=41)
    x = integers("int32", lanes, 1, low=-50, high=51)
    trips = integers("int32", PROGRAMS, 3, low=0, high=7)
    starts, wide = integers("int32", PROGRAMS, 4, low=-6, high=7), ("int32", lanes)
    return [
        _entry("for_trips", for_kernel, (x, trips), (wide,), "scf.for"),
        _entry("for_trips_int64", for_kernel, (x.long(), trips.long()), (("int64", lanes),), "scf.for"),
        _entry("for_bounds", for_bounds_kernel, (starts,), (wide,), "scf.for"),
        _entry("for_store", for_store_kernel, (trips,), (("int32", PROGRAMS * 5),), "scf.for", constexprs={"WIDTH": 5}),
        _entry("static_range", static_range_kernel, (x,), (wide,), "scf.for"),
        _entry("while_collatz", while_kernel, (x.abs()[:PROGRAMS] + 1,), (("int32", PROGRAMS),), "scf.while scf.condition", constexprs={}),
        _entry("if_else", if_kernel, (x,), (("int32", 2 * lanes),), "scf.if"),
        _entry("if_else_one_warp", if_kernel, (x,), (("int32", 2 * lanes),), "scf.if", options={**FUSION_OFF, "num_warps": 1}),
        _entry("if_expression", ternary_expression_kernel, (floats("float32", lanes, 5),), (("float32", lanes),), "arith.select"),
        _entry("early_return", early_return_kernel, (x,), (wide, 6), "cf.cond_br tt.return"),
        _entry("nested", nested_kernel, (trips,), (wide,), "scf.for scf.while scf.if"),
        _entry("call_noinline", call_kernel, (line,), (("int32", 2 * PROGRAMS),), "tt.call tt.func", constexprs={}),
        _entry("three_axes", three_axes_kernel, (), (("int32", 24), 5, 3), "tt.get_program_id", constexprs={}, grid=(2, 3, 4)),
        Entry(name="while_tensor", kernel=while_tensor_kernel, grid=(PROGRAMS,), constexprs={"BLOCK": BLOCK}, covers=("scf.while",),
              arguments=lambda: (x, empty("int32", lanes), 500)),
    ]  # fmt: skip


ENTRIES = _entries()

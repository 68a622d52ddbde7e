"""Loads and stores: masks, `other`, tails, strides, pointer loops, pointers as values, block pointers and tensor descriptors."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from corpus.entry import Addresses, Entry, empty
from corpus.values import exact, floats, integers, singles


@triton.jit
def masked_load_kernel(x_ptr, y_ptr, z_ptr, w_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n, other=3.0))
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets % 3 == 0))
    tl.store(w_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets % 2 == 0, other=tl.load(x_ptr + n - 1)), mask=offsets % 5 != 0)


@triton.jit
def scalar_memory_kernel(x_ptr, y_ptr, n):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    absent = tl.load(x_ptr + pid + n, mask=pid > n, other=5)
    tl.store(y_ptr + 2 * pid, x)
    tl.store(y_ptr + 2 * pid + 1, absent, mask=pid != 2)


@triton.jit
def strided_kernel(x_ptr, y_ptr, rows, columns, stride, R: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    mask = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row.to(tl.int64) * stride + column, mask=mask, other=0, cache_modifier=".cg")
    tl.store(y_ptr + column * rows + row, x, mask=mask)


@triton.jit
def pointer_loop_kernel(x_ptr, y_ptr, steps, BLOCK: tl.constexpr):
    pointers = x_ptr + tl.program_id(0) * steps * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for _ in range(steps):
        total += tl.load(pointers)
        pointers += BLOCK
    tl.store(y_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def pointer_table_kernel(a_ptr, b_ptr, c_ptr, table_ptr, y_ptr, BLOCK: tl.constexpr):
    base = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + offsets, tl.load(base + offsets))


@triton.jit
def pointer_arithmetic_kernel(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointers = tl.where(offsets % 2 == 0, x_ptr + offsets, y_ptr + offsets)
    distance = (x_ptr + offsets).to(tl.int64) - x_ptr.to(tl.int64)
    bits = tl.load((x_ptr + offsets).to(tl.pointer_type(tl.int32), bitcast=True))
    tl.store(z_ptr + offsets, tl.load(pointers).to(tl.int32, bitcast=True) + distance.to(tl.int32) + bits)


@triton.jit
def backwards_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    last = x_ptr + n - 1
    tl.store(y_ptr + offsets, tl.load(last - offsets, mask=offsets < n, other=0, volatile=True))
    tl.debug_barrier()


@triton.jit
def hints_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.assume(n > 0)
    start = tl.multiple_of(tl.program_id(0) * BLOCK, BLOCK)
    offsets = tl.max_contiguous(start + tl.arange(0, BLOCK), BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n, other=-1), eviction_policy="evict_last")
    tl.device_assert(offsets >= 0, "an offset is never negative")


@triton.jit
def block_pointer_kernel(x_ptr, y_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0))
    target = tl.make_block_ptr(y_ptr, (rows, columns), (columns, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0))
    total = tl.zeros((R, C), dtype=tl.float32)
    for _ in range(0, columns, C):
        block = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        total += block
        tl.store(target, total, boundary_check=(0, 1))
        source = tl.advance(source, (0, C))
        target = tl.advance(target, (0, C))


@triton.jit
def block_pointer_nan_kernel(x_ptr, y_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (rows, columns), (columns, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0))
    block = tl.load(source, boundary_check=(0, 1), padding_option="nan")
    row, column = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(y_ptr + row * C + column, block)


@triton.jit
def descriptor_kernel(x_ptr, y_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [R, C])
    target = tl.make_tensor_descriptor(y_ptr, [rows, columns], [columns, 1], [R, C])
    place = [tl.program_id(0) * R, tl.program_id(1) * C]
    target.store(place, source.load(place) + 1)


LOADABLE = ("bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "float8_e5m2")
SHAPE = {"R": 8, "C": 16}


def _masked(dtype: str) -> Entry:
    x = integers("float32", 128, 3, low=0, high=8).to(getattr(torch, dtype))
    return Entry(
        name=f"load_masked_{dtype}",
        kernel=masked_load_kernel,
        arguments=lambda: (x, empty(dtype, 128), empty(dtype, 128), empty(dtype, 128), 120),
        constexprs={"BLOCK": 32},
        covers=("tt.load", "tt.store"),
    )


def _strided() -> list[Entry]:
    x = floats("float32", 20 * 50, 5)
    return [
        Entry(
            name=f"strided_copy_{warps}_warps",
            kernel=strided_kernel,
            arguments=lambda: (x, empty("float32", 45, 20), 20, 45, 50),
            grid=(3, 3),
            constexprs=SHAPE,
            options={"enable_fp_fusion": False, "num_warps": warps},
            covers=("tt.expand_dims", "tt.broadcast", "tt.load", "tt.store"),
        )
        for warps in (1, 4)
    ]


def _pointers() -> list[Entry]:
    tables = [floats("float32", 64, salt) for salt in (7, 8, 9)]
    left, right = floats("float32", 256, 10), floats("float32", 256, 11)
    small = integers("int32", 3 * 5 * 64, 12, low=-1000, high=1000)
    return [
        Entry(name="pointer_loop", kernel=pointer_loop_kernel, grid=(3,), covers=("scf.for", "tt.addptr"),
              arguments=lambda: (small, empty("int32", 192), 5), constexprs={"BLOCK": 64}),
        Entry(name="pointer_table", kernel=pointer_table_kernel, grid=(3,), covers=("tt.int_to_ptr",),
              arguments=lambda: (*tables, Addresses((2, 0, 1)), empty("float32", 192)), constexprs={"BLOCK": 64}),
        Entry(name="pointer_arithmetic", kernel=pointer_arithmetic_kernel, covers=("tt.ptr_to_int", "tt.bitcast", "arith.select"),
              arguments=lambda: (left, right, empty("int32", 256)), constexprs={"BLOCK": 64}),
        Entry(name="backwards", kernel=backwards_kernel, covers=("tt.addptr",),
              arguments=lambda: (left, empty("float32", 256), 250), constexprs={"BLOCK": 64}),
        Entry(name="hints", kernel=hints_kernel, covers=("llvm.intr.assume",),
              arguments=lambda: (left, empty("float32", 256), 250), constexprs={"BLOCK": 64}),
    ]  # fmt: skip


def _blocks() -> list[Entry]:
    x, scalars = exact("float32", np.arange(20 * 44) % 37 / 4), singles("int32", 64)
    wide = {"grid": (3,), "constexprs": SHAPE, "removed_in": (3, 9)}
    return [
        Entry(name="scalar_memory", kernel=scalar_memory_kernel, grid=(6,), covers=("tt.load", "tt.store"),
              arguments=lambda: (scalars, empty("int32", 12), 6)),
        Entry(name="block_pointer", kernel=block_pointer_kernel, covers=("tt.load", "tt.store"), **wide,
              arguments=lambda: (x, empty("float32", 20, 44), 20, 44)),
        Entry(name="block_pointer_nan", kernel=block_pointer_nan_kernel, covers=("tt.load",), **wide,
              arguments=lambda: (x, empty("float32", 24, 16), 20, 12)),
        Entry(name="descriptor", kernel=descriptor_kernel, grid=(3, 3), constexprs=SHAPE, risky=True,
              covers=("tt.make_tensor_descriptor", "tt.descriptor_load", "tt.descriptor_store"),
              arguments=lambda: (x, empty("float32", 20, 44), 20, 44)),
    ]  # fmt: skip


ENTRIES = [_masked(dtype) for dtype in LOADABLE] + _strided() + _pointers() + _blocks()

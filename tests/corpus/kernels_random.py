"""Pseudo-random numbers (Philox, wrapping 32-bit arithmetic), hashes that wrap on purpose, inline assembly and elementwise maps."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from corpus.agreement import Ulp
from corpus.entry import Entry, empty
from corpus.values import BLOCK, COUNT, integers, singles


@triton.jit
def integer_kernel(y_ptr, seed, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.randint(seed, offsets), mask=offsets < n)


@triton.jit
def uniform_kernel(y_ptr, seed, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.rand(seed, offsets), mask=offsets < n)


@triton.jit
def normal_kernel(y_ptr, seed, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.randn(seed, offsets), mask=offsets < n)


@triton.jit
def four_kernel(y_ptr, seed, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    a, b, c, d = tl.randint4x(seed, offsets)
    tl.store(y_ptr + offsets, a, mask=mask)
    tl.store(y_ptr + n + offsets, b, mask=mask)
    tl.store(y_ptr + 2 * n + offsets, c, mask=mask)
    tl.store(y_ptr + 3 * n + offsets, d, mask=mask)


@triton.jit
def dropout_kernel(x_ptr, y_ptr, probability, seed, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    kept = tl.rand(seed, offsets) > probability
    tl.store(y_ptr + offsets, tl.where(kept, x * 2, 0), mask=mask)


@triton.jit
def hash_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    h = tl.load(x_ptr + offsets, mask=mask).to(tl.uint32)
    h ^= h >> 16
    h *= 0x85EBCA6B
    h ^= h >> 13
    h *= 0xC2B2AE35
    h ^= h >> 16
    tl.store(y_ptr + offsets, h % 1000, mask=mask)


@triton.jit
def assembly_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.inline_asm_elementwise("shf.l.wrap.b32 $0, $1, $1, 8;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y_ptr + offsets, y, mask=mask)


@triton.jit
def larger_or_difference(x, y):
    if x > y:
        return x
    return y - x


@triton.jit
def map_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.store(y_ptr + offsets, tl.map_elementwise(larger_or_difference, x, offsets - 200), mask=mask)


ROUNDS = "arith.muli tt.mulhiui arith.xori arith.addi"
NORMAL = Ulp(16, "sqrt(-2 log u) cos(2 pi v) of approximate functions; the cosine loses bits near its zeros", 1.0)


def _entry(name: str, kernel: Any, before: tuple, output: tuple, after: tuple, covers: str, **fields: Any) -> Entry:
    return Entry(
        name=name,
        kernel=kernel,
        arguments=lambda: (*before, empty(*output), *after, COUNT),
        constexprs={"BLOCK": BLOCK},
        covers=tuple(covers.split()),
        **fields,
    )


def _seeds() -> list[Entry]:
    seeds = {"one": 1, "small": 12345, "negative": -7, "wide": 2**40 + 9}
    made = [_entry(f"randint_{name}", integer_kernel, (), ("int32", COUNT), (seed,), ROUNDS) for name, seed in seeds.items()]
    made += [_entry(f"rand_{name}", uniform_kernel, (), ("float32", COUNT), (seed,), ROUNDS) for name, seed in seeds.items()]
    return made


def _rest() -> list[Entry]:
    x, whole = singles("int32"), integers("int32", COUNT, 3, low=-90, high=91)
    values = integers("float32", COUNT, 4, low=-90, high=91)
    return [
        _entry("randn_small", normal_kernel, (), ("float32", COUNT), (12345,), ROUNDS + " math.log math.cos", policy=NORMAL),
        _entry("randint4x_small", four_kernel, (), ("int32", 4, COUNT), (12345,), ROUNDS),
        _entry("dropout", dropout_kernel, (values,), ("float32", COUNT), (0.25, 99), ROUNDS),
        _entry("hash_wraps", hash_kernel, (x,), ("int32", COUNT), (), "arith.muli arith.shrui arith.remui"),
        _entry("inline_assembly", assembly_kernel, (x,), ("int32", COUNT), (), "tt.elementwise_inline_asm"),
        _entry("map_elementwise", map_kernel, (whole,), ("int32", COUNT), (), "tt.map_elementwise cf.cond_br"),
    ]


ENTRIES = _seeds() + _rest()

"""Casts between all dtypes, bit casts, and the float to integer conversions that MLIR leaves undefined."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from corpus.entry import Entry, empty
from corpus.templates import elementwise
from corpus.values import BLOCK, COUNT, FLOATS, exact, from_bits, integers, noise, random_float_bits, singles


@triton.jit
def cast_to_integers_kernel(x_ptr, i1_ptr, i8_ptr, i16_ptr, i32_ptr, i64_ptr, u8_ptr, u32_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(i1_ptr + offsets, x.to(tl.int1), mask=mask)
    tl.store(i8_ptr + offsets, x.to(tl.int8), mask=mask)
    tl.store(i16_ptr + offsets, x.to(tl.int16), mask=mask)
    tl.store(i32_ptr + offsets, x.to(tl.int32), mask=mask)
    tl.store(i64_ptr + offsets, x.to(tl.int64), mask=mask)
    tl.store(u8_ptr + offsets, x.to(tl.uint8), mask=mask)
    tl.store(u32_ptr + offsets, x.to(tl.uint32), mask=mask)


@triton.jit
def cast_to_floats_kernel(x_ptr, f16_ptr, bf16_ptr, f32_ptr, f64_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(f16_ptr + offsets, x.to(tl.float16), mask=mask)
    tl.store(bf16_ptr + offsets, x.to(tl.bfloat16), mask=mask)
    tl.store(f32_ptr + offsets, x.to(tl.float32), mask=mask)
    tl.store(f64_ptr + offsets, x.to(tl.float64), mask=mask)


@triton.jit
def cast_to_fp8_kernel(x_ptr, e4m3_ptr, e5m2_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(e4m3_ptr + offsets, x.to(tl.float8e4nv), mask=mask)
    tl.store(e5m2_ptr + offsets, x.to(tl.float8e5), mask=mask)


@triton.jit
def widen_to_float32(x):
    return x.to(tl.float32)


@triton.jit
def truncate_to_float16(x):
    return x.to(tl.float16, fp_downcast_rounding="rtz")


@triton.jit
def truncate_to_bfloat16(x):
    return x.to(tl.bfloat16, fp_downcast_rounding="rtz")


@triton.jit
def bitcast_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, x.to(y_ptr.dtype.element_ty, bitcast=True), mask=mask)


INTEGER_TARGETS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint32")
SOURCES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", *FLOATS)
FP8 = ("float8_e4m3fn", "float8_e5m2")


def _cast(name: str, kernel: object, x: object, targets: tuple[str, ...], covers: tuple[str, ...]) -> Entry:
    return Entry(
        name=name,
        kernel=kernel,
        arguments=lambda: (x, *(empty(target, COUNT) for target in targets), COUNT),
        constexprs={"BLOCK": BLOCK},
        covers=covers,
    )


def _in_range(dtype: str) -> object:
    """Return numbers whose whole part fits every integer target, with fractions, both zeros and one subnormal among them."""
    fractions = integers("float64", COUNT, 3, low=0, high=127 * 8) / 8
    fractions[:4] = exact("float64", [0.0, -0.0, -0.75, 2.0**-14])
    return fractions.to(singles(dtype).dtype)


def _to_integers(dtype: str) -> list[Entry]:
    if dtype not in FLOATS:
        narrows, widens = ("bool", "int8", "uint8"), "arith.extui" if dtype.startswith(("u", "b")) else "arith.extsi"
        covers = (*(() if dtype in narrows else ("arith.trunci",)), *(() if dtype.endswith("int64") else (widens,)))
        return [_cast(f"cast_to_integers_{dtype}", cast_to_integers_kernel, singles(dtype), INTEGER_TARGETS, covers)]
    covers = ("arith.fptosi", "arith.fptoui", "arith.cmpf")
    return [
        _cast(f"cast_to_integers_{dtype}", cast_to_integers_kernel, _in_range(dtype), INTEGER_TARGETS, covers),
        _cast(f"cast_to_integers_out_of_range_{dtype}", cast_to_integers_kernel, _wide_floats(dtype), INTEGER_TARGETS, covers),
    ]


def _wide_floats(dtype: str) -> object:
    """Return special values, the edges of every integer dtype, and magnitudes up to 2**70 (float16: 2**15)."""
    span = 14 if dtype == "float16" else 70
    x = from_bits(dtype, random_float_bits(dtype, COUNT, 51, span=span))
    x[:16] = singles(dtype)[:16]
    edges = [sign * (2.0**k + step) for k in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (1, -1) for step in (-1, -0.5, 0, 0.5, 1)]
    x[16 : 16 + len(edges)] = exact("float64", edges).to(x.dtype)
    return x


def _halfway_floats(dtype: str, target: str) -> object:
    """Return wider numbers exactly between, and one bit beside, two neighbours of the narrower `target`."""
    bits = random_float_bits(dtype, COUNT, 61)
    gap = {("float32", "bfloat16"): 16, ("float32", "float16"): 13, ("float64", "float32"): 29}[dtype, target]
    low = np.array([1 << (gap - 1), (1 << (gap - 1)) + 1, (1 << (gap - 1)) - 1, 0], dtype=np.uint64)
    return from_bits(dtype, bits >> np.uint64(gap) << np.uint64(gap) | np.resize(low, COUNT))


def _to_floats(dtype: str) -> Entry:
    if dtype in FLOATS:
        covers = ("arith.truncf",) if dtype == "float64" else ("arith.extf", "arith.truncf")
    else:
        covers = ("arith.uitofp" if dtype.startswith(("u", "b")) else "arith.sitofp",)
    return _cast(f"cast_to_floats_{dtype}", cast_to_floats_kernel, singles(dtype), FLOATS, covers)


def _halfway() -> list[Entry]:
    ways = (("float32", "bfloat16"), ("float32", "float16"), ("float64", "float32"))
    return [
        _cast(f"cast_halfway_{source}_{target}", cast_to_floats_kernel, _halfway_floats(source, target), FLOATS, ("arith.truncf",))
        for source, target in ways
    ]


def _eighth() -> list[Entry]:
    saturating = singles("float32")
    saturating[20:28] = exact("float32", [465.0, 1e9, -1e9, 61000.0, 448.0, 464.0, 57344.0, 1e-9])
    made = [_cast("cast_to_fp8_float32", cast_to_fp8_kernel, saturating, FP8, ("tt.fp_to_fp",))]
    for name in FP8:
        every_byte = from_bits(name, np.arange(COUNT, dtype=np.uint64))
        made.append(elementwise(f"cast_from_{name}", widen_to_float32, (every_byte,), "float32", covers=("tt.fp_to_fp",)))
    x = singles("float32")
    made.append(elementwise("truncate_float32_float16", truncate_to_float16, (x,), "float16", covers=("tt.fp_to_fp",)))
    made.append(elementwise("truncate_float32_bfloat16", truncate_to_bfloat16, (x,), "bfloat16", covers=("tt.fp_to_fp",)))
    return made


def _bitcasts() -> list[Entry]:
    narrow = (("float32", "int32"), ("float16", "int16"), ("int16", "bfloat16"))
    ways = (*narrow, ("int64", "float64"), ("float64", "uint64"), ("uint32", "int32"))
    made = [_cast(f"bitcast_{a}_{b}", bitcast_kernel, singles(a), (b,), ("tt.bitcast",)) for a, b in ways]
    large = exact("int64", (noise(COUNT, 71) >> np.uint64(2)).astype(np.int64) | (1 << 61))
    made.append(_cast("cast_to_floats_large_int64", cast_to_floats_kernel, large, FLOATS, ("arith.sitofp",)))
    return made


ENTRIES = [entry for dtype in SOURCES for entry in (*_to_integers(dtype), _to_floats(dtype))] + _halfway() + _eighth() + _bitcasts()

"""Float arithmetic, minimum and maximum in both NaN modes, fma, clamp, select and comparisons, in every float dtype."""

from __future__ import annotations

import triton
import triton.language as tl

from corpus.agreement import Ulp
from corpus.entry import Entry, empty
from corpus.templates import elementwise
from corpus.values import BLOCK, COUNT, FLOATS, exact, floats, integers, pairs, singles


@triton.jit
def add(x, y):
    return x + y


@triton.jit
def subtract(x, y):
    return x - y


@triton.jit
def multiply(x, y):
    return x * y


@triton.jit
def divide(x, y):
    return x / y


@triton.jit
def remainder(x, y):
    return x % y


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def minimum(x, y):
    return tl.minimum(x, y)


@triton.jit
def maximum_nan(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum_nan(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def select(x, y):
    return tl.where(x > y, x, y)


@triton.jit
def negate(x):
    return -x


@triton.jit
def absolute(x):
    return tl.abs(x)


@triton.jit
def fma(x, y, z):
    return tl.fma(x, y, z)


@triton.jit
def multiply_add(x, y, z):
    return x * y + z


@triton.jit
def clamp(x, low, high):
    return tl.clamp(x, low, high)


@triton.jit
def clamp_nan(x, low, high):
    return tl.clamp(x, low, high, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def constants(x):
    return tl.where(x > 1.0, float("inf"), tl.where(x < -1.0, -float("inf"), x * 0.1))


@triton.jit
def comparison_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x < y, mask=mask)
    tl.store(z_ptr + n + offsets, x <= y, mask=mask)
    tl.store(z_ptr + 2 * n + offsets, x == y, mask=mask)
    tl.store(z_ptr + 3 * n + offsets, x != y, mask=mask)
    tl.store(z_ptr + 4 * n + offsets, x >= y, mask=mask)
    tl.store(z_ptr + 5 * n + offsets, x > y, mask=mask)
    tl.store(z_ptr + 6 * n + offsets, not (x < y), mask=mask)


BINARY = {
    "add": (add, "arith.addf"),
    "subtract": (subtract, "arith.subf"),
    "multiply": (multiply, "arith.mulf"),
    "maximum": (maximum, "arith.maxnumf"),
    "minimum": (minimum, "arith.minnumf"),
    "maximum_nan": (maximum_nan, "arith.maximumf"),
    "minimum_nan": (minimum_nan, "arith.minimumf"),
    "select": (select, "arith.select"),
}
UNARY = {"negate": (negate, "arith.subf"), "absolute": (absolute, "math.absf"), "constants": (constants, "arith.constant")}
DIVISION = Ulp(2, "f32 division is div.full.f32, at most 2 ulp; the narrow dtypes divide in f32 and round")


def _of_dtype(dtype: str) -> list[Entry]:
    x, y = pairs(dtype)
    single, z = singles(dtype), singles(dtype, salt=3).flip(0)
    made = [elementwise(f"{name}_{dtype}", fn, (x, y), dtype, covers=(op,)) for name, (fn, op) in BINARY.items()]
    made += [elementwise(f"{name}_{dtype}", fn, (single,), dtype, covers=(op,)) for name, (fn, op) in UNARY.items()]
    made.append(elementwise(f"fma_{dtype}", fma, (x, y, z), dtype, covers=("math.fma",)))
    made.append(elementwise(f"multiply_add_{dtype}", multiply_add, (x, y, z), dtype, covers=("arith.mulf", "arith.addf")))
    bounds = (exact(dtype, [-1.0] * COUNT), exact(dtype, [1.5] * COUNT))
    for name, fn in (("clamp", clamp), ("clamp_nan", clamp_nan)):
        made.append(elementwise(f"{name}_{dtype}", fn, (single, *bounds), dtype, covers=("tt.clampf",)))
    return [*made, *_divisions(dtype), _comparisons(dtype)]


def _divisions(dtype: str) -> list[Entry]:
    numerator, denominator = floats(dtype, COUNT, 21), floats(dtype, COUNT, 22)
    quarters, steps = integers(dtype, COUNT, 23, low=-100, high=101) / 4, exact(dtype, [0.5, -0.75, 3.0, -7.0, 1.25] * (COUNT // 5))
    specials = exact(dtype, [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 3.0] * 63)[:COUNT]
    others = specials.roll(1) + specials.roll(3)
    policy = {} if dtype == "float64" else {"policy": DIVISION}
    return [
        elementwise(f"divide_{dtype}", divide, (numerator, denominator), dtype, covers=("arith.divf",), **policy),
        elementwise(f"divide_special_{dtype}", divide, (specials, others), dtype, covers=("arith.divf",), **policy),
        elementwise(f"remainder_{dtype}", remainder, (quarters, steps), dtype, covers=("arith.remf",)),
        elementwise(f"remainder_special_{dtype}", remainder, (quarters, specials), dtype, covers=("arith.remf",)),
    ]


def _comparisons(dtype: str) -> Entry:
    return Entry(
        name=f"compare_{dtype}",
        kernel=comparison_kernel,
        arguments=lambda: (*pairs(dtype), empty("bool", 7, COUNT), COUNT),
        constexprs={"BLOCK": BLOCK},
        covers=("arith.cmpf",),
    )


def _fused() -> list[Entry]:
    reason = "with fusion on, the product is not rounded before the sum (fma); op by op it is"
    operands = [tuple(floats(d, COUNT, salt, signed=False) for salt in (31, 32, 33)) for d in FLOATS]
    return [
        elementwise(f"multiply_add_fused_{d}", multiply_add, xyz, d, covers=("arith.mulf", "arith.addf"),
                    policy=Ulp(1, reason), options={"enable_fp_fusion": True})
        for d, xyz in zip(FLOATS, operands, strict=True)
    ]  # fmt: skip


ENTRIES = [entry for dtype in FLOATS for entry in _of_dtype(dtype)] + _fused()

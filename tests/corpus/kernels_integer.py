"""Integer arithmetic of every width and signedness: wrapping, division, shifts, bits, comparisons; also what MLIR leaves undefined."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from corpus.entry import Entry, empty
from corpus.kernels_float import comparison_kernel
from corpus.templates import elementwise
from corpus.values import BLOCK, COUNT, INTEGERS, SIGNED, from_bits, integers, noise, pairs, special_bits


@triton.jit
def ring_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)
    tl.store(z_ptr + n + offsets, x - y, mask=mask)
    tl.store(z_ptr + 2 * n + offsets, x * y, mask=mask)
    tl.store(z_ptr + 3 * n + offsets, -x, mask=mask)
    tl.store(z_ptr + 4 * n + offsets, tl.abs(x), mask=mask)


@triton.jit
def bitwise_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x & y, mask=mask)
    tl.store(z_ptr + n + offsets, x | y, mask=mask)
    tl.store(z_ptr + 2 * n + offsets, x ^ y, mask=mask)
    tl.store(z_ptr + 3 * n + offsets, ~x, mask=mask)


@triton.jit
def order_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, tl.maximum(x, y), mask=mask)
    tl.store(z_ptr + n + offsets, tl.minimum(x, y), mask=mask)
    tl.store(z_ptr + 2 * n + offsets, tl.where((x < y) & (x > 3) | (y == 7), x, y), mask=mask)


@triton.jit
def division_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask, other=1)
    tl.store(z_ptr + offsets, x // y, mask=mask)
    tl.store(z_ptr + n + offsets, x % y, mask=mask)
    tl.store(z_ptr + 2 * n + offsets, x // 7, mask=mask)
    tl.store(z_ptr + 3 * n + offsets, x % 8, mask=mask)


@triton.jit
def shift_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x << y, mask=mask)
    tl.store(z_ptr + n + offsets, x >> y, mask=mask)
    tl.store(z_ptr + 2 * n + offsets, x << 3, mask=mask)
    tl.store(z_ptr + 3 * n + offsets, x >> 3, mask=mask)


@triton.jit
def multiply_high(x, y):
    return tl.umulhi(x, y)


@triton.jit
def ceiling_division(x, y):
    return tl.cdiv(x, y)


@triton.jit
def true_division(x, y):
    return (x / y).to(tl.int32)


@triton.jit
def scalar_arguments_kernel(y_ptr, a, b, c, flag, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = offsets * a + b // 3 - c % 7
    y = tl.where(flag, y, -y)
    tl.store(y_ptr + offsets, y + tl.cdiv(n, BLOCK) + tl.num_programs(0), mask=offsets < n)


RING = ("arith.addi", "arith.subi", "arith.muli")


def _rows(name: str, kernel: object, operands: tuple, rows: int, dtype: str, covers: tuple[str, ...], out: str = "") -> Entry:
    return Entry(
        name=f"{name}_{dtype}",
        kernel=kernel,
        arguments=lambda: (*operands, empty(out or dtype, rows, COUNT), COUNT),
        constexprs={"BLOCK": BLOCK},
        covers=covers,
    )


def _divisors(dtype: str) -> tuple:
    """Return operands on which division is defined: no zero divisor, and no -1 (MIN // -1 overflows)."""
    x, y = pairs(dtype)
    divisors = y.numpy().copy()
    undefined = (divisors == 0) | (divisors == -1) if dtype in SIGNED else divisors == 0
    divisors[undefined] = 5
    return x, from_bits(dtype, divisors.view(f"uint{divisors.itemsize * 8}"))


def _undefined_divisors(dtype: str) -> tuple:
    edges = special_bits(dtype)
    x = from_bits(dtype, np.resize(edges, COUNT))
    divisors = np.array([0, -1], dtype=np.int64).view(np.uint64)
    return x, from_bits(dtype, np.resize(np.repeat(divisors, len(edges)), COUNT))


def _shifts(dtype: str, low: int, high: int) -> tuple:
    x, _ = pairs(dtype)
    amounts = (noise(COUNT, 5) % np.uint64(high - low)).astype(np.int64) + low
    return x, from_bits(dtype, amounts.view(np.uint64))


def _of_dtype(dtype: str) -> list[Entry]:
    both, width = pairs(dtype), int(dtype.lstrip("uint"))
    sign = "s" if dtype in SIGNED else "u"
    shifts, divisions = ("arith.shli", f"arith.shr{sign}i"), (f"arith.div{sign}i", f"arith.rem{sign}i")
    return [
        _rows("ring", ring_kernel, both, 5, dtype, RING if sign == "u" else (*RING, "math.absi")),
        _rows("bitwise", bitwise_kernel, both, 4, dtype, ("arith.andi", "arith.ori", "arith.xori")),
        _rows("order", order_kernel, both, 3, dtype, (f"arith.max{sign}i", f"arith.min{sign}i", "arith.select")),
        _rows("compare", comparison_kernel, both, 7, dtype, ("arith.cmpi",), "bool"),
        _rows("division", division_kernel, _divisors(dtype), 4, dtype, divisions),
        _rows("division_undefined", division_kernel, _undefined_divisors(dtype), 4, dtype, divisions),
        _rows("shift", shift_kernel, _shifts(dtype, 0, width), 4, dtype, shifts),
        _rows("shift_past_width", shift_kernel, _shifts(dtype, width, min(4 * width, 120)), 4, dtype, shifts),
    ]


def _rest() -> list[Entry]:
    wide = ("int32", "int64", "uint32", "uint64")
    made = [elementwise(f"umulhi_{d}", multiply_high, pairs(d), d, covers=("tt.mulhiui",)) for d in wide]
    positive = (integers("int32", COUNT, 41, low=0, high=10**6), integers("int32", COUNT, 42, low=1, high=99))
    made.append(elementwise("cdiv_int32", ceiling_division, positive, "int32", covers=("arith.divsi",)))
    multiples = (positive[1] * integers("int32", COUNT, 43, low=1, high=90) * 2 + positive[1], positive[1] * 2)
    made.append(elementwise("true_division_int32", true_division, multiples, "int32", covers=("arith.sitofp", "arith.divf")))
    scalars = {"one": (1, 16, 1, True), "other": (7, -100, 33, False), "wide": (2**40 + 3, 2**33, -(2**35), True)}
    for name, values in scalars.items():
        made.append(
            Entry(
                name=f"scalar_arguments_{name}",
                kernel=scalar_arguments_kernel,
                arguments=lambda values=values: (empty("int64", COUNT), *values, COUNT),
                constexprs={"BLOCK": BLOCK},
                covers=("tt.splat", "tt.get_num_programs"),
            )
        )
    return made


ENTRIES = [entry for dtype in INTEGERS for entry in _of_dtype(dtype)] + _rest()

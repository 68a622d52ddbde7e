"""Math functions: exact ones bit for bit, and those that a GPU approximates within a bound that is stated per function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from corpus.agreement import Ulp
from corpus.templates import elementwise
from corpus.values import COUNT, exact, floats, from_bits, integers, noise, pairs, singles

if TYPE_CHECKING:
    from corpus.entry import Entry


@triton.jit
def exponential(x):
    return tl.exp(x)


@triton.jit
def exponential2(x):
    return tl.exp2(x)


@triton.jit
def logarithm(x):
    return tl.log(x)


@triton.jit
def logarithm2(x):
    return tl.log2(x)


@triton.jit
def sine(x):
    return tl.sin(x)


@triton.jit
def cosine(x):
    return tl.cos(x)


@triton.jit
def square_root(x):
    return tl.sqrt(x)


@triton.jit
def reciprocal_square_root(x):
    return tl.rsqrt(x)


@triton.jit
def error_function(x):
    return tl.erf(x)


@triton.jit
def floor(x):
    return tl.floor(x)


@triton.jit
def ceiling(x):
    return tl.ceil(x)


@triton.jit
def exact_square_root(x):
    return tl.sqrt_rn(x)


@triton.jit
def exact_division(x, y):
    return tl.div_rn(x, y)


@triton.jit
def ieee_division(x, y):
    return tl.fdiv(x, y, ieee_rounding=True)


@triton.jit
def sigmoid(x):
    return tl.sigmoid(x)


@triton.jit
def hyperbolic_tangent(x):
    return libdevice.tanh(x)


@triton.jit
def is_nan(x):
    return libdevice.isnan(x).to(tl.int32)


@triton.jit
def round_half_even(x):
    return libdevice.rint(x)


APPROXIMATE = "ex2.approx, sqrt.approx, rsqrt.approx and div.full are approximations of the PTX instruction set"
LIBDEVICE = "CUDA's libdevice: 1 or 2 ulp by its documentation"
TINY = 2.0**-100  # results that flush to zero on the GPU are below the ulp at this magnitude


def _positive(dtype: str) -> torch.Tensor:
    return floats(dtype, COUNT, 3, span=20, signed=False)


def _edges(dtype: str) -> torch.Tensor:
    """Return ordinary numbers after the values at which math functions are special; no subnormals (the GPU flushes them)."""
    x = floats(dtype, COUNT, 4, span=3)
    x[:8] = exact(dtype, [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 4.0])
    return x


def _thirds(dtype: str) -> torch.Tensor:
    """Return halves, quarters and whole numbers of both signs, where rounding to an integer decides, and special values."""
    x = integers("float64", COUNT, 5, low=-400, high=401) / 4
    x[:16] = singles(dtype)[:16].double()
    return x.to(getattr(torch, dtype))


def _powers(dtype: str) -> torch.Tensor:
    """Return exponents that reach underflow and overflow."""
    return (integers("float64", COUNT, 6, low=-1400, high=1400) / 8).to(getattr(torch, dtype))


def _single() -> list[Entry]:
    d, ulp = "float32", {n: Ulp(n, APPROXIMATE) for n in (2, 3)}
    named = {n: Ulp(n, LIBDEVICE) for n in (2, 3)}
    # |x| <= 8: the rounding of x * log2(e) is up to 2**-21 of the result's exponent, 8 ulp of the result
    around_one = Ulp(10, "exp(x) is ex2.approx(x * log2(e)): the product's rounding counts as many ulp as its exponent")
    return [
        elementwise("exp_float32", exponential, (_edges(d),), d, covers=("math.exp",), policy=around_one),
        elementwise("exp_range_float32", exponential, (_powers(d) / 2,), d, covers=("math.exp",), policy=Ulp(140, APPROXIMATE, TINY)),
        elementwise("exp2_float32", exponential2, (_edges(d),), d, covers=("math.exp2",), policy=ulp[3]),
        elementwise("exp2_range_float32", exponential2, (_powers(d),), d, covers=("math.exp2",), policy=Ulp(3, APPROXIMATE, TINY)),
        elementwise("log_float32", logarithm, (_positive(d),), d, covers=("math.log",), policy=named[2]),
        elementwise("log_special_float32", logarithm, (_edges(d),), d, covers=("math.log",), policy=named[2]),
        elementwise("log2_float32", logarithm2, (_positive(d),), d, covers=("math.log2",), policy=named[2]),
        elementwise("log2_special_float32", logarithm2, (_edges(d),), d, covers=("math.log2",), policy=named[2]),
        elementwise("sin_float32", sine, (_edges(d),), d, covers=("math.sin",), policy=named[3]),
        elementwise("cos_float32", cosine, (_edges(d),), d, covers=("math.cos",), policy=named[3]),
        elementwise("sqrt_float32", square_root, (_positive(d),), d, covers=("math.sqrt",), policy=ulp[2]),
        elementwise("sqrt_special_float32", square_root, (_edges(d),), d, covers=("math.sqrt",), policy=ulp[2]),
        elementwise("rsqrt_float32", reciprocal_square_root, (_positive(d),), d, covers=("math.rsqrt",), policy=ulp[3]),
        elementwise("rsqrt_special_float32", reciprocal_square_root, (_edges(d),), d, covers=("math.rsqrt",), policy=ulp[3]),
        elementwise("erf_float32", error_function, (_edges(d),), d, covers=("math.erf",), policy=named[3]),
        elementwise("sigmoid_float32", sigmoid, (_edges(d),), d, covers=("math.exp", "arith.divf"), policy=around_one),
        elementwise("tanh_float32", hyperbolic_tangent, (_edges(d),), d, covers=("tt.extern_elementwise",), policy=named[3]),
        elementwise("isnan_float32", is_nan, (singles(d),), "int32", covers=("tt.extern_elementwise",)),
        elementwise("rint_float32", round_half_even, (_edges(d),), d, covers=("tt.extern_elementwise",)),
    ]


def _double() -> list[Entry]:
    d, near = "float64", {"policy": Ulp(2, LIBDEVICE)}
    functions = {
        "exp": (exponential, _edges),
        "exp2": (exponential2, _edges),
        "log": (logarithm, _positive),
        "log2": (logarithm2, _positive),
        "sin": (sine, _edges),
        "cos": (cosine, _edges),
        "erf": (error_function, _edges),
        "rsqrt": (reciprocal_square_root, _positive),
    }
    made = [elementwise(f"{n}_{d}", fn, (x(d),), d, covers=(f"math.{n}",), **near) for n, (fn, x) in functions.items()]
    return [*made, elementwise(f"sqrt_{d}", square_root, (_positive(d),), d, covers=("math.sqrt",))]


def _exact() -> list[Entry]:
    made = []
    for d in ("float32", "float64"):
        made.append(elementwise(f"floor_{d}", floor, (_thirds(d),), d, covers=("math.floor",)))
        made.append(elementwise(f"ceil_{d}", ceiling, (_thirds(d),), d, covers=("math.ceil",)))
    ordinary = from_bits("float32", noise(COUNT, 8))  # any bit pattern
    made.append(elementwise("sqrt_rn_float32", exact_square_root, (ordinary.abs(),), "float32", covers=("tt.precise_sqrt",)))
    made.append(elementwise("div_rn_float32", exact_division, pairs("float32"), "float32", covers=("tt.precise_divf",)))
    near = (floats("float32", COUNT, 9), floats("float32", COUNT, 10))
    policy = Ulp(2, "Triton 3.6 and 3.7 ignore ieee_rounding: div.full.f32")
    made.append(elementwise("fdiv_ieee_float32", ieee_division, near, "float32", covers=("arith.divf",), policy=policy))
    return made


def _subnormal() -> list[Entry]:
    """Return what the approximate functions do with subnormal inputs: they are taken as zero."""
    x = from_bits("float32", np.arange(1, COUNT + 1, dtype=np.uint64) * np.uint64(16001))
    near = {"policy": Ulp(2, APPROXIMATE)}
    return [
        elementwise("sqrt_subnormal_float32", square_root, (x,), "float32", covers=("math.sqrt",), **near),
        elementwise("rsqrt_subnormal_float32", reciprocal_square_root, (x,), "float32", covers=("math.rsqrt",), **near),
        elementwise("exp2_subnormal_float32", exponential2, (x,), "float32", covers=("math.exp2",), **near),
    ]


ENTRIES = _single() + _double() + _exact() + _subnormal()

"""Distance between floats, counted in units in the last place (ULPs)."""

from __future__ import annotations

import torch

from difftest.dtypes import bits_of, facts

_EXPONENT_MASK = 0x7FF0_0000_0000_0000
_FARTHEST = torch.iinfo(torch.int64).max


def ulp(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the ULP of `dtype` at each magnitude, as float64 of the same shape.

    `magnitude` is float64; its sign does not matter. The ULP is at least the smallest subnormal (so it is never 0) and at most the ULP of
    the largest finite value (also at infinity and NaN, so it is always finite). For an integer dtype it is 1.
    """
    fact = facts(dtype)
    if not fact.is_float:
        return torch.ones_like(magnitude, dtype=torch.float64)
    # Without its mantissa and sign a float64 is the power of two at or below it; subnormal float64 become 0 and are clamped.
    binade = bits_of(magnitude).bitwise_and(_EXPONENT_MASK).view(torch.float64)
    return binade.mul_(fact.eps).clamp_(min=fact.smallest_subnormal, max=fact.ulp_at_largest)


def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return how many representable values lie from `a` to `b`, as int64 of the same shape.

    Both have one float dtype and one shape. The two zeros are the same value; an infinity is one step past the largest finite value;
    two NaNs are 0 apart, and a NaN is as far as possible (the largest int64) from everything else. Distances past int64 stop there too.
    """
    first, second = ordered(a), ordered(b)
    steps = (first - second).abs_()
    opposite = (first ^ second) < 0
    too_far = opposite & (first.abs() > _FARTHEST - second.abs())
    nan_a, nan_b = a.to(torch.float64).isnan(), b.to(torch.float64).isnan()
    return steps.masked_fill_(too_far | (nan_a ^ nan_b), _FARTHEST).masked_fill_(nan_a & nan_b, 0)


def ordered(values: torch.Tensor) -> torch.Tensor:
    """Return int64 that are in the order of the floats, neighbours differing by 1 and both zeros being 0."""
    bits = bits_of(values).to(torch.int64)
    negative = -(bits - torch.iinfo(bits_of(values).dtype).min)
    return torch.where(bits < 0, negative, bits)


def from_ordered(order: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the floats of which `ordered` gives these int64; 0 gives +0.0."""
    width = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[facts(dtype).bits]
    bits = torch.where(order < 0, torch.iinfo(width).min - order, order)
    return bits.to(width).view(dtype)


def rounded(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return float64 values rounded once, to nearest even, to `dtype`.

    torch converts float64 to 16 and 8 bits by way of float32, which rounds twice. Here the float32 is rounded to odd first (Boldo and
    Melquiond, "When double rounding is odd", 2005), so that the second rounding gives what one rounding would.
    """
    if not dtype.is_floating_point or facts(dtype).bits >= 32:
        return exact.to(dtype)
    return _round_to_odd(exact).to(dtype)


def _round_to_odd(exact: torch.Tensor) -> torch.Tensor:
    nearest = exact.to(torch.float32)
    back = nearest.to(torch.float64)
    even = bits_of(nearest).bitwise_and(1) == 0
    inexact = (back != exact) & nearest.isfinite() & even
    infinity = torch.full((), float("inf"), device=exact.device)
    toward = torch.where(exact > back, infinity, -infinity)
    return torch.where(inexact, torch.nextafter(nearest, toward), nearest)

"""Comparison without an allowance: integers by value, floats by bits with NaNs as one class."""

from __future__ import annotations

import math
from typing import Any

import torch

from difftest.dtypes import bits_of, dtype_name
from difftest.form import form_mismatch
from difftest.outcome import Element, OutputComparison
from difftest.ulps import distance, rounded


def compare_bits(name: str, actual: Any, expected: torch.Tensor) -> OutputComparison:
    """Return whether two tensors have the same bits, signed zeros included and NaNs as one class."""
    mismatch = form_mismatch(name, actual, expected.dtype, like=expected)
    return mismatch or _by_bits(name, actual.detach(), expected, rule="bits")


def compare_exactly(name: str, actual: torch.Tensor, golden: torch.Tensor) -> OutputComparison:
    """Return whether integers equal the golden int64, or floats the golden float64 rounded once to their dtype.

    `actual` has the shape of `golden`, and a dtype of its kind.
    """
    golden = golden.to(actual.device)
    if actual.dtype.is_floating_point:
        return _by_bits(name, actual, rounded(golden.to(torch.float64), actual.dtype), rule="exact")
    return _by_bits(name, actual.to(torch.int64), golden.to(torch.int64), rule="exact", dtype=dtype_name(actual.dtype))


def _by_bits(name: str, actual: torch.Tensor, expected: torch.Tensor, *, rule: str, dtype: str = "") -> OutputComparison:
    dtype, expected = dtype or dtype_name(actual.dtype), expected.to(actual.device)
    differs = bits_of(actual) != bits_of(expected)
    if actual.dtype.is_floating_point:
        differs &= ~(actual.to(torch.float64).isnan() & expected.to(torch.float64).isnan())
    wrong = int(differs.count_nonzero())
    size = actual.numel()
    if not wrong:
        return OutputComparison(name=name, accepted=True, rule=rule, reason=f"all {size} elements are equal", compared=size, dtype=dtype)
    worst = _worst(actual, expected, differs)
    share = wrong / size
    return OutputComparison(
        name=name,
        accepted=False,
        rule=rule,
        reason=f"{wrong} elements differ where equal {'values' if dtype.startswith(('int', 'uint', 'bool')) else 'bits'} are expected",
        compared=size,
        wrong=wrong,
        peak=worst.error,
        p99=worst.error if share > 0.01 else 0.0,
        peak_ratio=math.inf,
        p99_ratio=math.inf if share > 0.01 else 0.0,
        worst=worst,
        dtype=dtype,
        unit="ULP" if actual.dtype.is_floating_point else "(difference)",
    )


def _worst(actual: torch.Tensor, expected: torch.Tensor, differs: torch.Tensor) -> Element:
    """Return the differing float that is furthest off, or the first differing integer."""
    # A differing sign of zero is 0 ULPs off and must still be found, so equal elements are -1.
    off = distance(actual, expected).masked_fill_(~differs, -1) if actual.dtype.is_floating_point else differs.to(torch.int8)
    flat = int(off.reshape(-1).argmax())
    index = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(flat), actual.shape)) if actual.dim() else ()
    got, want = actual[index].item(), expected[index].item()
    error = float(off[index]) if actual.dtype.is_floating_point else float(abs(int(got) - int(want)))
    return Element(index=index, actual=got, expected=want, error=error, allowed=0.0)

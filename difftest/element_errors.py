"""The error of each element in ULPs, and its class: finite, infinite by sign, or NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from difftest.dtypes import facts
from difftest.ulps import rounded, ulp

_FINITE, _POSITIVE, _NEGATIVE, _NAN = range(4)


@dataclass(frozen=True)
class Classes:
    """The classes that each element may have: those of `expected`, or of `alternative`; infinities and NaN may count as one class."""

    expected: torch.Tensor
    alternative: torch.Tensor
    one_non_finite_class: bool = False

    def refuse(self, found: torch.Tensor) -> torch.Tensor:
        """Return where a found class is not admitted."""
        if self.one_non_finite_class:
            return (found != _FINITE) != (self.expected != _FINITE)
        return (found != self.expected) & (found != self.alternative)


@dataclass(frozen=True)
class Errors:
    """Errors in ULPs of the output dtype, float64 of the output's shape: of the actual output and of the baseline."""

    actual: torch.Tensor
    baseline: torch.Tensor


def errors_in_ulp(
    actual: torch.Tensor, golden: torch.Tensor, baseline: torch.Tensor | None, scale: torch.Tensor | None
) -> tuple[Errors, bool]:
    """Return `|x - golden| / ulp(max(|golden|, scale))` for the actual output and the baseline, and whether a class has to be judged.

    All have one shape and device; golden and scale are float64. Where the scale is not finite it counts as 0, which can only tighten. A
    class has to be judged where an infinity or a NaN occurs, or a golden value lies beyond the range of the output dtype; the errors there
    mean nothing.
    """
    magnitude = golden.abs() if scale is None else torch.maximum(golden.abs(), scale.nan_to_num(0.0, 0.0, 0.0))
    unit = ulp(magnitude, actual.dtype)
    off = _off(actual, golden, unit)
    off_baseline = torch.zeros_like(off) if baseline is None else _off(baseline, golden, unit)
    extremes = torch.stack((off.amax(), off_baseline.amax()))
    in_range = bool(magnitude.amax() <= facts(actual.dtype).largest) and bool(extremes.isfinite().all())
    return Errors(off, off_baseline), not in_range


def classes(values: torch.Tensor) -> torch.Tensor:
    """Return 0 for finite, 1 and 2 for the infinities, 3 for NaN, as int8 of the same shape."""
    wide = values.to(torch.float64)
    code = torch.zeros_like(wide, dtype=torch.int8)
    # Nearly always all or nearly all are finite: only the others are looked at closely.
    special = wide.isfinite().logical_not_()
    rest = wide[special]
    code[special] = torch.where(rest.isnan(), _NAN, torch.where(rest > 0, _POSITIVE, _NEGATIVE)).to(torch.int8)
    return code


def admitted_classes(golden: torch.Tensor, baseline: torch.Tensor | None, dtype: torch.dtype) -> Classes:
    """Return the class of the rounded golden value, and of the baseline where the golden value is finite before rounding."""
    expected = _classes_after_rounding(golden, dtype)
    if baseline is None:
        return Classes(expected, expected)
    return Classes(expected, torch.where(golden.isfinite(), classes(baseline), expected))


def _classes_after_rounding(golden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the classes of golden values rounded to `dtype`; only those beyond its largest value can change class."""
    code = torch.zeros_like(golden, dtype=torch.int8)
    beyond = ~(golden.abs() <= facts(dtype).largest)
    code[beyond] = classes(rounded(golden[beyond], dtype))
    return code


def judged_by_class(errors: Errors, actual: torch.Tensor, golden: torch.Tensor, baseline: torch.Tensor | None, admitted: Classes) -> Errors:
    """Return the errors with infinity where the class is wrong, and 0 where a right class leaves nothing to measure."""
    found = classes(actual)
    off = errors.actual.masked_fill(found != _FINITE, 0.0).masked_fill_(admitted.refuse(found), math.inf)
    if baseline is None:
        return Errors(off, errors.baseline)
    unmeasured = (classes(baseline) != _FINITE) | ~golden.isfinite()
    return Errors(off, errors.baseline.masked_fill(unmeasured, 0.0))


def _off(values: torch.Tensor, golden: torch.Tensor, unit: torch.Tensor) -> torch.Tensor:
    return (values.to(torch.float64) - golden).abs_().div_(unit)

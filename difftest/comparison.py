"""How outputs agree with the golden answer: values in, results out; nothing here raises or broadcasts.

The rules are those of docs/agreement.md. `Comparison` and `OutputComparison` are the results.
"""

from __future__ import annotations

from typing import Any

import torch

from difftest.acceptance import Judged, compare_statistics, empty
from difftest.bit_comparison import compare_bits, compare_exactly
from difftest.element_errors import Classes, Errors, admitted_classes, classes, errors_in_ulp, judged_by_class
from difftest.form import form_mismatch
from difftest.outcome import FORM, Comparison, Element, OutputComparison
from difftest.tolerance import ErrorRatio, Exact, Tolerance

__all__ = [
    "FORM",
    "Comparison",
    "Element",
    "OutputComparison",
    "compare_bits",
    "compare_non_finite",
    "compare_output",
    "compare_references",
]

# Two right formulations in float64 differ by a few roundings of the terms that an element sums; measured up to 4 (bilinear specification).
REFERENCE_FACTOR = 8.0


def compare_output(  # noqa: PLR0913 - one parameter for each thing that the rule is about
    name: str,
    actual: Any,
    golden: torch.Tensor,
    baseline: torch.Tensor | None,
    scale: torch.Tensor | None,
    tolerance: Tolerance,
    tile_rows: int | None = None,
) -> OutputComparison:
    """Return how an output agrees with its golden answer by a tolerance.

    Args:
        name: the output, for messages.
        actual: what the launch returned; anything but a tensor is a mismatch.
        golden: the exact answer, float64 or int64.
        baseline: the plain torch computation, in the dtype that the output should have; None expects the dtype of `golden` and allows the
            floor of the tolerance only.
        scale: float64 of the output's shape, the size of the terms that an element sums; None for |golden| alone.
        tolerance: what is allowed. Outputs of integers and bool are exact whatever it says.
        tile_rows: rows (of the first dimension) that are judged together as well as the whole.

    """
    dtype = golden.dtype if baseline is None else baseline.dtype
    if mismatch := form_mismatch(name, actual, dtype, like=golden, baseline=baseline, scale=scale):
        return mismatch
    actual = actual.detach()
    if not actual.numel():
        return empty(name, dtype)
    if isinstance(tolerance, Exact) or not dtype.is_floating_point:
        return compare_exactly(name, actual, golden)
    golden, baseline, scale = _on(actual, golden), _beside(actual, baseline), _on(actual, scale)
    errors, classes_matter = errors_in_ulp(actual, golden, baseline, scale)
    if classes_matter:
        errors = judged_by_class(errors, actual, golden, baseline, admitted_classes(golden, baseline, dtype))
    return compare_statistics(name, Judged(actual, golden, baseline, errors), tolerance, tile_rows)


def compare_non_finite(  # noqa: PLR0913 - as compare_output
    name: str,
    actual: Any,
    torch_low: torch.Tensor,
    torch_high: torch.Tensor,
    tolerance: Tolerance,
    scale: torch.Tensor | None = None,
    *,
    fused: bool = False,
) -> OutputComparison:
    """Return how an output agrees with the op-by-op torch reference where inputs are not finite.

    Args:
        name: the output, for messages.
        actual: what the launch returned.
        torch_low: the reference at the kernel's precision. It alone says where the output is finite, infinite (by sign) or NaN.
        torch_high: the same computation in float64: the golden answer of the finite elements, whose baseline is `torch_low`.
        tolerance: what is allowed at the finite elements.
        scale: as for `compare_output`; where it is not finite it counts as 0.
        fused: whether multiply-adds may have been contracted. A weight that is exactly 0 op by op may then be -2e-6, and 0 * inf = NaN
            becomes an infinity of either sign, so infinities and NaN count as one class.

    """
    if mismatch := form_mismatch(name, actual, torch_low.dtype, like=torch_low, **{"reference in float64": torch_high, "scale": scale}):
        return mismatch
    actual = actual.detach()
    if not actual.numel():
        return empty(name, torch_low.dtype)
    low, high, scale = _beside(actual, torch_low), _on(actual, torch_high), _on(actual, scale)
    if isinstance(tolerance, Exact) or not actual.dtype.is_floating_point:
        return compare_bits(name, actual, low)
    golden = torch.where(high.isfinite() | ~low.isfinite(), high, low.to(torch.float64))
    golden = torch.where(low.isfinite(), golden, low.to(torch.float64))
    errors, _ = errors_in_ulp(actual, golden, low, scale)
    expected = classes(low)
    admitted = Classes(expected, expected, one_non_finite_class=fused)
    errors = judged_by_class(errors, actual, golden, low, admitted)
    return compare_statistics(name, Judged(actual, golden, low, errors), tolerance, None)


def compare_references(
    name: str, torch64: Any, golden: torch.Tensor, scale: torch.Tensor | None, factor: float = REFERENCE_FACTOR
) -> OutputComparison:
    """Return whether torch in float64 agrees with the golden answer within `factor * eps64 * scale` at every element.

    Integers must be equal. Without a scale it is |golden|. NaNs agree with NaNs, and infinities with those of their sign.
    """
    dtype = golden.dtype
    if not dtype.is_floating_point and isinstance(torch64, torch.Tensor) and not torch64.dtype.is_floating_point:
        dtype = torch64.dtype  # integers are compared by value, of whatever width
    if mismatch := form_mismatch(name, torch64, dtype, like=golden, scale=scale):
        return mismatch
    if not golden.numel():
        return empty(name, dtype)
    if not golden.dtype.is_floating_point:
        return compare_exactly(name, torch64, golden)
    golden, scale = _on(torch64, golden), _on(torch64, scale)
    finfo = torch.finfo(torch.float64)
    unit = (golden.abs() if scale is None else scale).mul(finfo.eps).clamp_(min=finfo.smallest_normal * finfo.eps)
    off = (torch64 - golden).abs_().div_(unit)
    same = (torch64 == golden) | (torch64.isnan() & golden.isnan())
    errors = Errors(off.masked_fill_(same, 0.0).nan_to_num_(torch.inf, torch.inf, torch.inf), torch.zeros_like(off))
    return compare_statistics(name, Judged(torch64, golden, None, errors, "eps64 * scale"), ErrorRatio(1.0, factor), None)


def _on(actual: torch.Tensor, values: Any) -> Any:
    """Return values in float64 on the device of `actual`; None stays None."""
    return None if values is None else values.detach().to(actual.device, torch.float64)


def _beside(actual: torch.Tensor, values: Any) -> Any:
    """Return values on the device of `actual`; None stays None."""
    return None if values is None else values.detach().to(actual.device)

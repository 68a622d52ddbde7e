"""Acceptance by two statistics of the error, its peak and its 99th percentile, over an output and over each of its tiles."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from difftest.dtypes import dtype_name
from difftest.outcome import Element, OutputComparison
from difftest.tolerance import Tolerance, within

if TYPE_CHECKING:
    from difftest.element_errors import Errors


@dataclass(frozen=True)
class _Table:
    """Peak and 99th percentile of the whole output (row 0) and of each tile: found, allowed and of the baseline, `(1 + tiles, 2)`."""

    found: torch.Tensor
    allowed: torch.Tensor
    baseline: torch.Tensor
    tile_rows: int | None

    def span(self, row: int, rows: int) -> tuple[int, int] | None:
        """Return first and last row of the tile that a row of the table is about; None for the whole output."""
        if row == 0 or self.tile_rows is None:
            return None
        first = (row - 1) * self.tile_rows
        return first, min(first + self.tile_rows, rows) - 1

    def whole(self) -> list[list[float]]:
        """Return peak and 99th percentile of the whole output: found, allowed, and of the baseline."""
        rows: list[list[float]] = torch.stack((self.found[0], self.allowed[0], self.baseline[0])).tolist()
        return rows

    def ratios(self) -> tuple[float, float]:
        """Return the largest found over allowed of each statistic; 0 over 0 is 0."""
        ratios = torch.where(self.found == 0, 0.0, self.found / self.allowed).nan_to_num(math.inf, math.inf)
        peak, p99 = ratios.amax(0).tolist()
        return peak, p99

    def first_broken(self) -> tuple[int, int] | None:
        """Return row and statistic of the first limit that is not kept, the whole output before its tiles; None when all are."""
        broken = torch.logical_not(within(self.found, self.allowed)).nonzero()
        return (int(broken[0, 0]), int(broken[0, 1])) if len(broken) else None


@dataclass(frozen=True)
class Judged:
    """Tensors of one shape: an output, what it is compared with, and the errors in `unit`."""

    actual: torch.Tensor
    golden: torch.Tensor
    baseline: torch.Tensor | None
    errors: Errors
    unit: str = "ULP"


def empty(name: str, dtype: torch.dtype) -> OutputComparison:
    """Return the result of an output without elements: accepted, and nothing was compared."""
    return OutputComparison(name=name, accepted=True, rule="empty", reason="it has no elements", dtype=dtype_name(dtype))


def compare_statistics(name: str, judged: Judged, tolerance: Tolerance, tile_rows: int | None) -> OutputComparison:
    """Return whether both statistics of the errors are within what the tolerance allows for the baseline's, everywhere."""
    table = _table(judged.errors, tolerance, tile_rows)
    (peak, p99), (allowed_peak, allowed_p99), (base_peak, base_p99) = table.whole()
    peak_ratio, p99_ratio = table.ratios()
    broken = table.first_broken()
    result = OutputComparison(
        name=name,
        accepted=broken is None,
        rule="error",
        reason=f"peak {peak:.3g} of {allowed_peak:.3g} {judged.unit} allowed, 99th percentile {p99:.3g} of {allowed_p99:.3g}",
        compared=judged.actual.numel(),
        peak=peak,
        p99=p99,
        allowed_peak=allowed_peak,
        allowed_p99=allowed_p99,
        baseline_peak=base_peak,
        baseline_p99=base_p99,
        peak_ratio=peak_ratio,
        p99_ratio=p99_ratio,
        dtype=dtype_name(judged.actual.dtype),
        unit=judged.unit,
    )
    if judged.unit == "ULP":
        result = replace(result, reason=f"{result.reason} by {tolerance}; plain torch has {base_peak:.3g} and {base_p99:.3g}")
    return result if broken is None else _with_failure(result, judged, table, *broken)


def statistics(errors: torch.Tensor, tile_rows: int | None) -> torch.Tensor:
    """Return peak and 99th percentile of each tile of `tile_rows` rows, as float64 `(tiles, 2)`; one tile holds all rows for None.

    The percentile is the smallest error that at least 99% of the elements do not exceed, so up to 99 elements it is the peak.
    """
    rows = errors.shape[0] if errors.dim() else 1
    table = errors.reshape(rows, -1)
    height = rows if tile_rows is None else min(tile_rows, rows)
    full = rows // height * height
    found = _peak_and_p99(table[:full].reshape(rows // height, -1))
    return found if full == rows else torch.cat((found, _peak_and_p99(table[full:].reshape(1, -1))))


def _peak_and_p99(table: torch.Tensor) -> torch.Tensor:
    rank = (99 * table.shape[1] + 99) // 100
    # CUDA's kthvalue gives a row to one block, and the whole output is one row; a sort uses the whole GPU.
    p99 = table.sort(1).values[:, rank - 1] if table.is_cuda else table.kthvalue(rank, 1).values
    return torch.stack((table.amax(1), p99), 1)


def _table(errors: Errors, tolerance: Tolerance, tile_rows: int | None) -> _Table:
    found, baseline = (_whole_and_tiles(values, tile_rows) for values in (errors.actual, errors.baseline))
    allowed = tolerance.limit(baseline).clamp(max=sys.float_info.max)
    return _Table(found, allowed, baseline, tile_rows)


def _whole_and_tiles(errors: torch.Tensor, tile_rows: int | None) -> torch.Tensor:
    whole = statistics(errors, None)
    if tile_rows is None or not errors.dim() or tile_rows >= errors.shape[0]:
        return whole
    return torch.cat((whole, statistics(errors, tile_rows)))


def _with_failure(result: OutputComparison, judged: Judged, table: _Table, row: int, statistic: int) -> OutputComparison:
    """Return the result with the rule that was broken, where, and the worst element there."""
    span = table.span(row, judged.actual.shape[0] if judged.actual.dim() else 1)
    first, errors = (span[0], judged.errors.actual[span[0] : span[1] + 1]) if span else (0, judged.errors.actual)
    limit = float(table.allowed[row, statistic])
    found = float(table.found[row, statistic])
    wrong = int(torch.logical_not(within(errors, limit)).count_nonzero())
    rule = "class" if math.isinf(found) and statistic == 0 else ("peak", "p99")[statistic]
    return replace(
        result,
        rule=rule if judged.unit == "ULP" else "references",
        reason=f"{_sentence(rule, span)}; {result.reason}",
        wrong=wrong,
        worst=_element(judged, errors, first, limit),
        rows=span,
    )


def _sentence(rule: str, span: tuple[int, int] | None) -> str:
    where = f" of rows {span[0]} to {span[1]}" if span else ""
    if rule == "class":
        return f"elements{where} are NaN, infinite or finite where they should not be"
    return f"the {'largest error' if rule == 'peak' else '99th percentile of the error'}{where} is over its limit"


def _element(judged: Judged, errors: torch.Tensor, first_row: int, limit: float) -> Element:
    """Return the element with the largest error among `errors`, which start at `first_row` of the output."""
    flat = errors.reshape(-1).argmax().cpu()
    index = tuple(int(axis) for axis in torch.unravel_index(flat, errors.shape)) if errors.dim() else ()
    index = (index[0] + first_row, *index[1:]) if index else ()
    baseline = None if judged.baseline is None else judged.baseline[index].item()
    return Element(
        index=index,
        actual=judged.actual[index].item(),
        expected=judged.golden[index].item(),
        baseline=baseline,
        error=float(judged.errors.actual[index]),
        allowed=limit,
    )

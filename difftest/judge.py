"""The verdict on one execution: values in, findings out; nothing here raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from difftest.comparison import FORM, Comparison, OutputComparison, compare_bits, compare_non_finite, compare_output

if TYPE_CHECKING:
    from difftest.case import Case
    from difftest.execution import Execution
    from difftest.golden import Golden
    from difftest.spec import KernelSpec


@dataclass(frozen=True)
class Judgement:
    """How the outputs of one case compare: by the tolerance, and bit for bit where the spec asks for it."""

    tolerant: Comparison
    strict: Comparison | None


def compare_outputs(spec: KernelSpec, case: Case, golden: Golden, outputs: tuple[Any, ...], *, fused: bool = False) -> Comparison:
    """Return how outputs compare with the golden answer by the spec's tolerance; `fused` where multiplies and adds may be contracted."""
    tolerance = spec.tolerance_for(case["dtype"])
    finite = golden.agreement is not None
    rows = []
    for index, name in enumerate(spec.outputs):
        actual, low = outputs[index], golden.baseline[index]
        if not isinstance(actual, torch.Tensor):
            rows.append(_not_a_tensor(name, actual))
        elif finite:
            rows.append(compare_output(name, actual, golden.golden[index], low, golden.scales[index], tolerance, tile_rows=spec.tile_rows))
        else:
            rows.append(compare_non_finite(name, actual, low, golden.high[index], tolerance, golden.scales[index], fused=fused))
    return Comparison(tuple(rows))


def compare_strictly(spec: KernelSpec, golden: Golden, outputs: tuple[Any, ...]) -> Comparison:
    """Return how outputs of the leg without fusion compare with the op-by-op torch reference, bit for bit."""
    rows = zip(spec.outputs, outputs, golden.baseline, strict=True)
    return Comparison(tuple(_bits_or_form(*row) for row in rows))


def _bits_or_form(name: str, actual: Any, low: torch.Tensor) -> OutputComparison:
    return compare_bits(name, actual, low) if isinstance(actual, torch.Tensor) else _not_a_tensor(name, actual)


def unwritten_message(spec: KernelSpec, execution: Execution) -> str:
    """Return a line for each output with elements that still hold poison."""
    return "\n".join(
        f"{count} of {execution.outputs[spec.outputs.index(name)].numel()} elements of `{name}` were never written"
        for name, count in execution.unwritten.items()
    )


def _not_a_tensor(name: str, value: Any) -> OutputComparison:
    return OutputComparison.rejected(name, FORM, f"{name}: the launch returned {type(value).__name__}, expected a tensor")

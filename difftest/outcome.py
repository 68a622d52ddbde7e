"""The result of comparing outputs, as values, and its message."""

from __future__ import annotations

import math
from dataclasses import dataclass

# The rule of an output that cannot be compared element by element: it has another shape, dtype or type than it should.
FORM = "shape or dtype mismatch"


@dataclass(frozen=True, kw_only=True)
class Element:
    """One element of an output, what was expected there, and by how much it is off.

    `error` and `allowed` are in the unit of the comparison, ULPs of the output dtype where nothing else is said. Values are Python numbers.
    """

    index: tuple[int, ...]
    actual: float
    expected: float
    baseline: float | None = None
    error: float
    allowed: float


@dataclass(frozen=True, kw_only=True)
class OutputComparison:
    """How one output compares, and why it was accepted or not.

    Attributes:
        name: the output.
        accepted: whether it agrees.
        rule: what decided: "shape or dtype mismatch", class, peak, p99, exact, bits, references, empty, or error when accepted.
        reason: the decision in words.
        compared: number of elements compared; 0 for a mismatch of shape or dtype, and for an empty output.
        wrong: number of elements beyond the limit of `rule`.
        peak, p99: largest and 99th percentile of the error.
        allowed_peak, allowed_p99: their limits.
        baseline_peak, baseline_p99: the same of the plain torch computation.
        peak_ratio, p99_ratio: the largest of error over allowed, over the whole output and all tiles; at most 1 when accepted.
        worst: the element with the largest error of those that `rule` looked at.
        rows: first and last row of the tile that failed; None when the whole output did, or nothing.
        dtype: name of the output dtype.
        unit: what errors are counted in.

    """

    name: str
    accepted: bool
    rule: str
    reason: str
    compared: int = 0
    wrong: int = 0
    peak: float = 0.0
    p99: float = 0.0
    allowed_peak: float = 0.0
    allowed_p99: float = 0.0
    baseline_peak: float = 0.0
    baseline_p99: float = 0.0
    peak_ratio: float = 0.0
    p99_ratio: float = 0.0
    worst: Element | None = None
    rows: tuple[int, int] | None = None
    dtype: str = ""
    unit: str = "ULP"

    @classmethod
    def rejected(cls, name: str, rule: str, reason: str) -> OutputComparison:
        """Return the result for an output that cannot be compared element by element."""
        return cls(name=name, accepted=False, rule=rule, reason=reason, peak_ratio=math.inf, p99_ratio=math.inf)

    def message(self) -> str:
        """Return the outcome as lines for a person: one line when accepted."""
        if self.accepted:
            return f"output {self.name!r} agrees: {self.reason}"
        if not self.compared:
            return f"output {self.name!r} was not compared: {self.reason}"
        return "\n".join((f"output {self.name!r} is wrong: {self.reason}", *self._where(), *self._worst()))

    def _where(self) -> tuple[str, ...]:
        share = f"{100 * self.wrong / self.compared:.3g}%"
        tile = f", judged in rows {self.rows[0]} to {self.rows[1]}" if self.rows else ""
        return (f"  mismatched elements: {self.wrong} of {self.compared} ({share}){tile}",)

    def _worst(self) -> tuple[str, ...]:
        worst = self.worst
        if worst is None:
            return ()
        baseline = () if worst.baseline is None else (f"    plain torch  {worst.baseline!r}",)
        return (
            f"  worst at index {worst.index}:",
            f"    actual       {worst.actual!r}",
            f"    expected     {worst.expected!r}",
            *baseline,
            f"    error        {_number(worst.error)} {self.unit}, allowed {_number(worst.allowed)}",
        )


@dataclass(frozen=True)
class Comparison:
    """The comparisons of all outputs of one launch."""

    outputs: tuple[OutputComparison, ...]

    @property
    def accepted(self) -> bool:
        """Return whether every output agrees; False when there is none."""
        return bool(self.outputs) and all(output.accepted for output in self.outputs)

    @property
    def compared(self) -> int:
        """Return the number of elements compared."""
        return sum(output.compared for output in self.outputs)

    @property
    def peak(self) -> float:
        """Return the largest error of an element."""
        return max((output.peak for output in self.outputs), default=0.0)

    @property
    def p99(self) -> float:
        """Return the largest 99th percentile of the error of an output."""
        return max((output.p99 for output in self.outputs), default=0.0)

    @property
    def peak_ratio(self) -> float:
        """Return the largest peak error over allowed."""
        return max((output.peak_ratio for output in self.outputs), default=0.0)

    @property
    def p99_ratio(self) -> float:
        """Return the largest 99th percentile of the error over allowed."""
        return max((output.p99_ratio for output in self.outputs), default=0.0)

    @property
    def failed(self) -> tuple[OutputComparison, ...]:
        """Return the outputs that do not agree."""
        return tuple(output for output in self.outputs if not output.accepted)

    @property
    def reason_kind(self) -> str:
        """Return the rule that an output broke, a mismatch of form before any other; empty when all agree."""
        rules = [output.rule for output in self.failed]
        return FORM if FORM in rules else (rules[0] if rules else "")

    def message(self) -> str:
        """Return the messages of the outputs that do not agree, or of all when all agree."""
        if not self.outputs:
            return "no output was compared"
        return "\n".join(output.message() for output in self.failed or self.outputs)


def _number(value: float) -> str:
    return f"{value:.6g}"

"""A cell of the test matrix (kernel x policy x dtype on an engine), and what is tallied while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from difftest.case import Case
    from difftest.comparison import Comparison
    from difftest.engines import Engine
    from difftest.execution import LaunchRecord
    from difftest.policy import SpecializationPolicy
    from difftest.spec import KernelSpec


@dataclass(frozen=True)
class Cell:
    """One kernel under one policy with one dtype on one engine."""

    spec: KernelSpec
    policy: SpecializationPolicy
    dtype: str
    engine: Engine

    def __str__(self) -> str:
        return f"{self.spec.name}[{self.policy.name}-{self.dtype}] on {self.engine.name} ({self.engine.target})"


@dataclass
class CellTally:
    """What a cell saw: the summary is made from it.

    A case counts when at least one element was compared and the case is new.
    """

    seen: set[Case] = field(default_factory=set)
    counted: int = 0
    empty: int = 0
    repeated: int = 0
    elements: int = 0
    peak_ratio: float = 0.0
    p99_ratio: float = 0.0
    peak_ulps: float = 0.0
    smallest_error_ulps: float | None = None
    keys: set[Any] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    compiles: int = 0
    compile_seconds: float = 0.0
    seconds: float = 0.0
    variations: dict[str, bool] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, case: Case, compared: int) -> None:
        """Count a judged case if it is new and compared something."""
        if case in self.seen:
            self.repeated += 1
        elif compared == 0:
            self.empty += 1
        else:
            self.counted += 1
        self.seen.add(case)
        self.elements += compared

    def add_errors(self, comparison: Comparison) -> None:
        """Keep the largest errors over allowed errors."""
        self.peak_ratio = max(self.peak_ratio, comparison.peak_ratio)
        self.p99_ratio = max(self.p99_ratio, comparison.p99_ratio)
        self.peak_ulps = max(self.peak_ulps, comparison.peak)

    def add_launches(self, launches: tuple[LaunchRecord, ...]) -> None:
        """Keep the compile keys and specialization classes of launches."""
        for record in launches:
            if record.key not in self.keys:
                self.keys.add(record.key)
                self.classes.update(record.key.classes())

    def add_smallest_error(self, ulps: float | None) -> None:
        """Keep the smallest error at one element that the oracle was seen to reject, in ULPs."""
        if ulps is not None and (self.smallest_error_ulps is None or ulps < self.smallest_error_ulps):
            self.smallest_error_ulps = ulps

    def add_variation(self, argument: str, *, could_fail: bool) -> None:
        """Keep whether the constructed pairs of an argument ever met two specialization classes."""
        self.variations[argument] = self.variations.get(argument, False) or could_fail

    def why_nothing(self) -> str:
        """Return why no case counted, and what to do."""
        if not self.seen:
            return "the strategy drew nothing; check the spec's cases()"
        return f"{self.empty} cases were empty and {self.repeated} repeated; draw launches with at least one output element"

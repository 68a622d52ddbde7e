"""The verdict on a cell, as plain data that travels from a worker to the controller."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from difftest.runner import CellRunner


@dataclass(frozen=True)
class CellVerdict:
    """What is reported of one cell; every field is JSON-able."""

    kernel: str
    policy: str
    dtype: str
    engine: str
    target: str
    verdict: str  # passed, failed, mistrusted, unsupported, skipped, error
    finding: str = ""  # the kind of finding, or the reason
    cases: int = 0
    elements: int = 0
    peak_ratio: float = 0.0
    p99_ratio: float = 0.0
    peak_ulps: float = 0.0
    tolerance: str = ""
    smallest_error_ulps: float | None = None
    keys: int = 0
    keys_allowed: int | None = None
    compiles: int = 0
    compile_seconds: float = 0.0
    seconds: float = 0.0
    classes: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    replay: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-able data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> CellVerdict:
        """Return the verdict that `as_dict` wrote."""
        return cls(**fields)


def verdict_of(runner: CellRunner, verdict: str, *, finding: str = "", replay: str = "") -> CellVerdict:
    """Return the verdict on a cell from its runner's tally."""
    cell, tally = runner.cell, runner.tally
    return CellVerdict(
        kernel=cell.spec.name,
        policy=cell.policy.name,
        dtype=cell.dtype,
        engine=cell.engine.name,
        target=cell.engine.target,
        verdict=verdict,
        finding=finding,
        cases=tally.counted,
        elements=tally.elements,
        peak_ratio=tally.peak_ratio,
        p99_ratio=tally.p99_ratio,
        peak_ulps=tally.peak_ulps,
        tolerance=str(cell.spec.tolerance_for(cell.dtype)),
        smallest_error_ulps=tally.smallest_error_ulps,
        keys=len(tally.keys),
        keys_allowed=runner.keys_allowed(),
        compiles=tally.compiles,
        compile_seconds=tally.compile_seconds,
        seconds=tally.seconds,
        classes=tuple(sorted(tally.classes)),
        cut=tuple(tally.cut),
        notes=tuple(dict.fromkeys(tally.notes)),
        replay=replay,
    )

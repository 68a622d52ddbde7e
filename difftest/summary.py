"""The table of verdicts in the terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

    from difftest.verdict import CellVerdict

_COLUMNS = ("kernel", "policy", "dtype", "engine", "cases", "peak/allowed", "p99/allowed", "keys", "compile s", "s", "verdict")


def print_summary(terminal: pytest.TerminalReporter, verdicts: Sequence[CellVerdict], *, seed: int) -> None:
    """Write the table, what was cut, the notes, the slowest cells and the specialization classes reached."""
    terminal.section("difftest")
    for line, markup in _table(verdicts):
        terminal.write_line(line, **markup)
    parts = (_unsupported, _tolerances, _cuts, _notes, _classes)
    for line in (*(line for part in parts for line in part(verdicts)), _total(verdicts, seed)):
        terminal.write_line(line)


def _table(verdicts: Sequence[CellVerdict]) -> Iterable[tuple[str, dict[str, bool]]]:
    rows = [_COLUMNS, *(_row(verdict) for verdict in sorted(verdicts, key=lambda one: (one.kernel, one.dtype, one.policy)))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for index, row in enumerate(rows):
        cells = enumerate(zip(row, widths, strict=True))
        text = "  ".join(cell.ljust(width) if column < 4 else cell.rjust(width) for column, (cell, width) in cells)
        bad = index > 0 and not row[-1].startswith("passed")
        yield text.rstrip(), {"bold": index == 0, "red": bad}


def _row(verdict: CellVerdict) -> tuple[str, ...]:
    engine = f"{verdict.engine} {verdict.target}".strip()
    allowed = f"{verdict.keys}/{verdict.keys_allowed}" if verdict.keys_allowed is not None else str(verdict.keys)
    word = f"{verdict.verdict}: {verdict.finding}" if verdict.finding and verdict.verdict != "unsupported" else verdict.verdict
    return (
        verdict.kernel,
        verdict.policy,
        verdict.dtype,
        engine,
        str(verdict.cases),
        f"{verdict.peak_ratio:.2f}",
        f"{verdict.p99_ratio:.2f}",
        allowed,
        f"{verdict.compile_seconds:.1f}",
        f"{verdict.seconds:.1f}",
        word,
    )


def _unsupported(verdicts: Sequence[CellVerdict]) -> Iterable[str]:
    reasons = dict.fromkeys(f"unsupported, {one.kernel}: {one.finding}" for one in verdicts if one.verdict == "unsupported")
    return list(reasons)


def _tolerances(verdicts: Sequence[CellVerdict]) -> Iterable[str]:
    """Yield the declared tolerance beside the largest error and the smallest one that the oracle was seen to reject."""
    for kernel, dtype in sorted({(one.kernel, one.dtype) for one in verdicts}):
        mine = [one for one in verdicts if (one.kernel, one.dtype) == (kernel, dtype) and one.tolerance]
        if mine:
            seen = [one.smallest_error_ulps for one in mine if one.smallest_error_ulps is not None]
            smallest = f"; smallest error it was seen to reject: {min(seen):.3g} ULP" if seen else ""
            yield f"tolerance {kernel} {dtype}: {mine[0].tolerance}; largest error {max(one.peak_ulps for one in mine):.3g} ULP{smallest}"


def _cuts(verdicts: Sequence[CellVerdict]) -> Iterable[str]:
    for kernel in sorted({one.kernel for one in verdicts}):
        names = sorted({name for one in verdicts if one.kernel == kernel for name in one.cut})
        if names:
            yield f"cut for the simulator ({kernel}: fewer frames, tokens or requests; model sizes kept): {', '.join(names)}"


def _notes(verdicts: Sequence[CellVerdict]) -> Iterable[str]:
    notes = Counter(f"{one.kernel} under {one.policy}: {note}" for one in verdicts for note in one.notes)
    return [f"note: {note}" for note in sorted(notes)]


def _classes(verdicts: Sequence[CellVerdict]) -> Iterable[str]:
    """Yield the specialization classes that each kernel's cases reached, so that thin generation shows."""
    for kernel in sorted({one.kernel for one in verdicts}):
        words = sorted({word for one in verdicts if one.kernel == kernel for word in one.classes})
        if words:
            yield f"classes reached, {kernel}: {', '.join(words)}"


def _total(verdicts: Sequence[CellVerdict], seed: int) -> str:
    counts = Counter(one.verdict for one in verdicts)
    engines = sorted({f"{one.engine} ({one.target})" for one in verdicts})
    words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    return (
        f"{len(verdicts)} cells on {', '.join(engines)}: {words}; {sum(one.cases for one in verdicts)} cases, "
        f"{sum(one.keys for one in verdicts)} keys, {sum(one.compile_seconds for one in verdicts):.1f} s compiling; "
        f"--difftest-seed={seed}"
    )

"""What counts as agreement, declared per kernel and dtype.

A tolerance turns the error of the plain torch computation into the error that a kernel may have. Errors are in ULPs of the output dtype.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from difftest.errors import InvalidSpec


@dataclass(frozen=True)
class Exact:
    """The output equals the golden answer: integers by value, floats by bits with NaNs as one class."""

    def limit(self, baseline: Any) -> Any:
        """Return 0: no error is allowed, whatever the baseline's is."""
        return baseline * 0.0

    def __str__(self) -> str:
        return "exact"


@dataclass(frozen=True)
class Ulp:
    """No element is further from the golden answer than `n` ULPs, whatever plain torch does."""

    n: float

    def __post_init__(self) -> None:
        """Refuse a limit below the error of correct rounding."""
        if not (_is_number(self.n) and self.n >= 0.5):
            raise InvalidSpec(
                f"ulp({self.n!r}): the limit must be a finite number of ULPs of at least 0.5, the error of correct rounding; "
                "use exact for outputs that are not rounded"
            )

    def limit(self, baseline: Any) -> Any:
        """Return `n`, in the shape of `baseline`."""
        return baseline * 0.0 + self.n

    def __str__(self) -> str:
        return f"ulp({self.n:g})"


@dataclass(frozen=True)
class ErrorRatio:
    """Peak and 99th percentile of the error are at most `c` times those of plain torch at the same precision, plus `floor` ULPs."""

    c: float
    floor: float

    def __post_init__(self) -> None:
        """Refuse a ratio that plain torch itself could not pass."""
        if not (_is_number(self.c) and self.c >= 1):
            raise InvalidSpec(f"error_ratio(c={self.c!r}): c must be a finite number of at least 1, so that plain torch itself passes")
        if not (_is_number(self.floor) and self.floor >= 0):
            raise InvalidSpec(f"error_ratio(floor={self.floor!r}): floor must be a finite number of ULPs of at least 0; 1 is usual")

    def limit(self, baseline: Any) -> Any:
        """Return the allowed error for the baseline's error."""
        return baseline * self.c + self.floor

    def __str__(self) -> str:
        return f"error_ratio(c={self.c:g}, floor={self.floor:g})"


Tolerance: TypeAlias = Exact | Ulp | ErrorRatio

exact = Exact()


def ulp(n: float) -> Ulp:
    """Return the tolerance of at most `n` ULPs at any element.

    Raises:
        InvalidSpec: when `n` is below 0.5 or not finite.

    """
    return Ulp(n)


def error_ratio(c: float, floor: float = 1.0) -> ErrorRatio:
    """Return the tolerance of at most `c` times the error of plain torch, plus `floor` ULPs.

    Raises:
        InvalidSpec: when `c` is below 1, or `floor` is negative, or one of them is not finite.

    """
    return ErrorRatio(c, floor)


def within(error: Any, limit: Any) -> Any:
    """Return whether each error is allowed; a NaN on either side is not."""
    return error <= limit


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

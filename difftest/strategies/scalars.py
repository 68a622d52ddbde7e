"""`scalars`: integer arguments drawn by the class that Triton specializes them in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hypothesis import strategies as st

from difftest.errors import InvalidStrategy
from difftest.strategies.arguments import check_int, check_names, check_order

_REACH = 17
"""Values looked at on each side of a pivot; a class that recurs does so within 16."""

_PIVOTS = (0, *(sign * (1 << bits) for bits in (7, 8, 15, 16, 31, 32, 63) for sign in (1, -1)))
"""Where a class can begin: around 0, and at the widths of integers. Which classes begin there is asked of Triton."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 64) - 1
"""Triton passes an integer argument as i32, i64 or u64."""

ScalarClass = Callable[[int], str]


def scalars(
    *, min_value: int, max_value: int, classes: Iterable[str] | None = None, scalar_class: ScalarClass | None = None
) -> st.SearchStrategy[int]:
    """Return a strategy for ints from `min_value` to `max_value` that draws a specialization class first, then a value of it.

    The classes are those which Triton, asked at the first draw, has for values of the range, such as "1", "multiple of 16", "other" and
    those of 64 bits: each is equally likely, though a class may hold one value of millions. `classes` keeps only some of them;
    `scalar_class` asks another authority than the installed Triton. Shrinks towards the class of the value nearest to 0, and within a class
    towards 0.

    Raises:
        InvalidStrategy: when a bound is not an int that a kernel can take or the range is empty; at the first draw, when a class in
            `classes` has no value in the range.

    """
    for name, value in (("min_value", min_value), ("max_value", max_value)):
        check_int("scalars", name, value, low=_LOWEST)
    check_order("scalars", "min_value", min_value, "max_value", max_value)
    if max_value > _HIGHEST:
        raise InvalidStrategy(f"scalars: max_value={max_value} does not fit 64 bits: no kernel takes it; give max_value <= {_HIGHEST}")
    wanted = None if classes is None else tuple(classes)
    return _scalars(min_value, max_value, wanted, scalar_class or _asked_of_triton)


@dataclass(frozen=True)
class ClassValues:
    """What was seen of a class within a range: its value nearest to 0, and its lowest and highest."""

    nearest: int
    lowest: int
    highest: int

    def with_value(self, value: int) -> ClassValues:
        """Return the same with one more value seen."""
        return ClassValues(self.nearest, min(self.lowest, value), max(self.highest, value))


def classes_in_range(min_value: int, max_value: int, scalar_class: ScalarClass | None = None) -> dict[str, ClassValues]:
    """Return each class that has values in the range; the class of the value nearest to 0 comes first."""
    found: dict[str, ClassValues] = {}
    for value in sorted(_probes(min_value, max_value), key=lambda value: (abs(value), value < 0)):
        name = (scalar_class or _asked_of_triton)(value)
        found[name] = found.get(name, ClassValues(value, value, value)).with_value(value)
    return found


@st.composite
def _scalars(draw: st.DrawFn, low: int, high: int, wanted: tuple[str, ...] | None, scalar_class: ScalarClass) -> int:
    known = _classes(low, high, scalar_class)
    names = tuple(known) if wanted is None else check_names("scalars", f"class with values from {low} to {high}", wanted, known)
    name = draw(st.sampled_from(sorted(names, key=list(known).index)))
    values = known[name]
    return _nearest(draw(st.integers(values.lowest, values.highest)), name, values, scalar_class)


def _nearest(near: int, name: str, values: ClassValues, scalar_class: ScalarClass) -> int:
    """Return the value of the class nearest to `near` that is in reach, else the one nearest to 0: every draw gives a value."""
    for distance in range(_REACH + 1):
        for value in (near - distance, near + distance) if near >= 0 else (near + distance, near - distance):
            if values.lowest <= value <= values.highest and scalar_class(value) == name:
                return value
    return values.nearest


@functools.lru_cache(maxsize=256)
def _classes(low: int, high: int, scalar_class: ScalarClass) -> dict[str, ClassValues]:
    return classes_in_range(low, high, scalar_class)


def _probes(low: int, high: int) -> set[int]:
    """Return the values whose class is asked: a stretch at each bound and at each pivot within the range."""
    pivots = {low, high, *(min(max(pivot, low), high) for pivot in _PIVOTS)}
    return {value for pivot in pivots for value in range(pivot - _REACH, pivot + _REACH + 1) if low <= value <= high}


@functools.lru_cache(maxsize=1 << 16)
def _asked_of_triton(value: int) -> str:
    from difftest.specialization import scalar_class  # noqa: PLC0415 - the import of strategies must not load Triton

    return scalar_class(value)

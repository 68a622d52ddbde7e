"""Atomic operations: lanes apply one after the other, in the order of instances and lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.formats import format_of, from_stored, rounded, to_stored
from difftest.engines.simulator.integers import unsigned
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.engines.simulator.memory import Touch

_BY_NUMBER: dict[int, Callable[..., Any]] = {
    1: np.bitwise_and,
    2: np.bitwise_or,
    3: np.bitwise_xor,
    4: np.add,
    6: np.maximum,
    7: np.minimum,
    8: lambda a, b: np.maximum(unsigned(a), unsigned(b)).view(a.dtype),
    9: lambda a, b: np.minimum(unsigned(a), unsigned(b)).view(a.dtype),
    10: lambda _a, b: b,
}


def combination(number: int, element: str) -> Callable[..., Any]:
    """Return what the atomic of that enum number makes of the old value and the operand."""
    if number == 5:
        return lambda a, b: rounded(a + b, element)
    if number not in _BY_NUMBER:
        raise Unsupported(f"the simulator does not know the atomic operation number {number}")
    return _BY_NUMBER[number]


def swapped_if_equal(element: str) -> Callable[..., Any]:
    """Return compare-and-swap: bits are compared, not numbers."""
    return lambda old, expected, new: np.where(to_stored(old, element) == to_stored(expected, element), new, old)


def read_modify_write(touch: Touch, operands: tuple[Any, ...], combine: Callable[..., Any]) -> Any:
    """Apply `combine(old, *operands)` at each offset under the mask and return the old values (zero where masked off)."""
    index, element, mask = touch.index(), touch.access.element, touch.mask
    # An atomic acts once for each lane of each instance, also where address and operand are the same for all.
    shape = (touch.run.count, *touch.access.shape)
    on = np.ones(shape, dtype=np.bool_) if mask is None else np.broadcast_to(mask, shape)
    old = np.zeros(shape, dtype=format_of(element).held)
    targets = np.broadcast_to(index, shape)[on]
    values = [np.broadcast_to(operand, shape)[on] for operand in operands]
    old[on] = _one_after_the_other(touch.raw, element, targets, values, combine)
    return old


def _one_after_the_other(raw: Any, element: str, targets: Any, values: list[Any], combine: Callable[..., Any]) -> Any:
    """Apply in rounds: the first lane of each address, then the second of each, and so on."""
    old = np.zeros(len(targets), dtype=format_of(element).held)
    left = np.arange(len(targets))
    while len(left):
        _, first = np.unique(targets[left], return_index=True)
        now = left[first]
        before = from_stored(raw[targets[now]], element)
        old[now] = before
        raw[targets[now]] = to_stored(np.ascontiguousarray(combine(before, *[value[now] for value in values])), element)
        left = np.delete(left, first)
    return old

"""Loads and stores: every access is held against the elements of the tensor that its pointer belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.formats import format_of, from_stored, to_stored
from difftest.engines.simulator.run import positions_of
from difftest.errors import NeverWritten, OutOfBounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from difftest.engines.simulator.allocation import Allocation
    from difftest.engines.simulator.run import Run
    from difftest.engines.simulator.values import Pointers

Mask = "NDArray[np.bool_] | None"


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of the kernel: the element type of its pointer, and where it stands."""

    verb: str
    element: str
    rank: int
    where: Callable[[], str]

    def fault(self, run: Run, bad: NDArray[np.bool_]) -> tuple[str, tuple[int, ...]]:
        """Return who and where of the first marked access, and its index."""
        instance, lane, index = positions_of(run, bad)
        lanes = "" if not lane else f", lane {lane[0] if len(lane) == 1 else lane}"
        return f"program {run.program(instance)}{lanes}, at {self.where()}", index


def load(run: Run, access: Access, pointers: Pointers, mask: Any, other: Any) -> NDArray[Any]:
    """Return what lies at the pointers; masked-off elements are `other`, or zero where it is None (as on an H200).

    Raises:
        OutOfBounds: at the first element outside its tensor.
        NeverWritten: at the first element that still holds poison.

    """
    mask = run.under_active(mask, access.rank)
    if isinstance(pointers.origin, int):
        values = _load_from(run, access, run.allocations[pointers.origin], pointers.offset, mask)
    else:
        values = _load_from_several(run, access, pointers, mask)
    if mask is None or (other is None and _is_zeroed(values, mask)):
        return values
    return np.where(mask, values, values.dtype.type(0) if other is None else other)


def _is_zeroed(_values: NDArray[Any], mask: NDArray[np.bool_]) -> bool:
    return bool(mask.all())


def _load_from(run: Run, access: Access, allocation: Allocation, offset: NDArray[Any], mask: Any) -> NDArray[Any]:
    itemsize = format_of(access.element).itemsize
    index = checked(run, access, allocation, offset, mask)
    raw = allocation.raw(itemsize)
    if len(raw) == 0:  # every lane is masked off
        return np.zeros(index.shape, dtype=format_of(access.element).held)
    bits = raw.take(index, mode="clip")
    if allocation.poison is not None and itemsize == allocation.itemsize:
        _refuse_poison(run, access, allocation, bits, mask, index)
    return from_stored(bits, access.element)


def _refuse_poison(run: Run, access: Access, allocation: Allocation, bits: Any, mask: Any, index: Any) -> None:
    hit = bits == bits.dtype.type(allocation.poison)
    if not hit.any():
        return
    if mask is not None:
        hit = hit & mask
        if not hit.any():
            return
    where, at = access.fault(run, hit)
    position = int(np.broadcast_to(index, hit.shape)[at])
    raise NeverWritten(
        f"{access.verb} of `{allocation.name}` reads memory that nobody wrote: element {position} of {len(allocation.raw(allocation.itemsize))} "
        f"(shape {allocation.shape}), {where}"
    )


def _load_from_several(run: Run, access: Access, pointers: Pointers, mask: Any) -> NDArray[Any]:
    result: Any = None
    for allocation, part in _by_allocation(run, pointers, mask):
        values = _load_from(run, access, allocation, pointers.offset, part)
        result = values if result is None else np.where(part, values, result)
    if result is None:
        return np.zeros(np.broadcast_shapes(np.shape(pointers.origin), pointers.offset.shape), dtype=format_of(access.element).held)
    return result  # type: ignore[no-any-return]


def _by_allocation(run: Run, pointers: Pointers, mask: Any) -> Iterator[tuple[Allocation, NDArray[np.bool_]]]:
    for origin in np.unique(pointers.origin):
        here = pointers.origin == origin
        yield run.allocations[int(origin)], here if mask is None else here & mask


def checked(run: Run, access: Access, allocation: Allocation, offset: NDArray[Any], mask: Any) -> NDArray[Any]:
    """Return the offsets with those of masked-off lanes made harmless.

    Raises:
        OutOfBounds: at the first offset under the mask that is no element of the tensor.

    """
    itemsize = format_of(access.element).itemsize
    count, members = len(allocation.raw(itemsize)), allocation.members(itemsize)
    if offset.min() >= 0 and offset.max() < count and members is None:
        return offset
    index = offset if mask is None else np.where(mask, offset, offset.dtype.type(0))
    if count and index.min() >= 0 and index.max() < count and (members is None or _all_members(members, index, mask)):
        return index
    return _checked_one_by_one(run, access, allocation, offset, mask, itemsize)


def _all_members(members: NDArray[np.bool_], index: NDArray[Any], mask: Any) -> bool:
    inside = members.take(index, mode="clip")
    return bool((inside if mask is None else inside | ~mask).all())


def _checked_one_by_one(run: Run, access: Access, allocation: Allocation, offset: Any, mask: Any, itemsize: int) -> NDArray[Any]:
    """Raise at the first lane outside; return zeros when the mask leaves none (an empty tensor, all lanes off)."""
    count, members = len(allocation.raw(itemsize)), allocation.members(itemsize)
    bad = (offset < 0) | (offset >= count)
    if members is not None and count:
        bad |= ~members.take(np.clip(offset, 0, count - 1))
    if mask is not None:
        bad = bad & mask
    if not bad.any():
        return np.zeros_like(offset)
    where, at = access.fault(run, bad)
    position = int(np.broadcast_to(offset, bad.shape)[at])
    raise OutOfBounds(f"{access.verb} outside `{allocation.name}`: {allocation.describe(position, itemsize)}, {where}")


def store(run: Run, access: Access, pointers: Pointers, value: NDArray[Any], mask: Any) -> None:
    """Write the values to the pointers; where several write to one element, the last instance and lane wins.

    Raises:
        OutOfBounds: at the first element outside its tensor.

    """
    mask = run.under_active(mask, access.rank)
    if isinstance(pointers.origin, int):
        _store_to(run, access, run.allocations[pointers.origin], pointers.offset, value, mask)
        return
    for allocation, part in _by_allocation(run, pointers, mask):
        _store_to(run, access, allocation, pointers.offset, value, part)


def _store_to(run: Run, access: Access, allocation: Allocation, offset: Any, value: Any, mask: Any) -> None:
    index = checked(run, access, allocation, offset, mask)
    raw = allocation.raw(format_of(access.element).itemsize)
    bits = to_stored(np.ascontiguousarray(value), access.element)
    if mask is None or mask.all():
        if len(raw):
            raw[index] = bits
        return
    shape = np.broadcast_shapes(index.shape, bits.shape, mask.shape)
    on = np.broadcast_to(mask, shape)
    raw[np.broadcast_to(index, shape)[on]] = np.broadcast_to(bits, shape)[on]

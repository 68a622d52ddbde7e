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


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of the kernel: the element type of its pointer, and where it stands."""

    verb: str
    element: str
    shape: tuple[int, ...]
    where: Callable[[], str]


@dataclass(frozen=True)
class Touch:
    """What one access of a chunk of instances does to one tensor: at which offsets, under which mask (None: everywhere)."""

    run: Run
    access: Access
    allocation: Allocation
    offset: NDArray[Any]
    mask: Any

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element."""
        return format_of(self.access.element).itemsize

    @property
    def raw(self) -> NDArray[Any]:
        """Return the tensor's memory as unsigned integers of the element's width."""
        return self.allocation.raw(self.itemsize)

    def index(self) -> NDArray[Any]:
        """Return the offsets with those of masked-off lanes made harmless.

        Raises:
            OutOfBounds: at the first offset under the mask that is no element of the tensor.

        """
        offset, count, members = self.offset, len(self.raw), self.allocation.members(self.itemsize)
        if offset.min() >= 0 and offset.max() < count and members is None:
            return offset
        index = offset if self.mask is None else np.where(self.mask, offset, offset.dtype.type(0))
        if count and index.min() >= 0 and index.max() < count and (members is None or self._all_in(members, index)):
            return index
        return self._checked_one_by_one(count, members)

    def load(self) -> Any:
        """Return what lies at the offsets; anything where masked off.

        Raises:
            NeverWritten: at the first element that still holds poison.

        """
        index = self.index()
        if len(self.raw) == 0:  # every lane is masked off
            return np.zeros(index.shape, dtype=format_of(self.access.element).held)
        bits = self.raw.take(index, mode="clip")
        if self.allocation.poison is not None and self.itemsize == self.allocation.itemsize:
            self._refuse_poison(bits, index)
        return from_stored(bits, self.access.element)

    def store(self, value: NDArray[Any]) -> None:
        """Write values to the offsets; where several meet at one element, the last instance and lane wins."""
        index, bits = self.index(), to_stored(np.ascontiguousarray(value), self.access.element)
        if self.mask is None or self.mask.all():
            self.raw[np.broadcast_to(index, np.broadcast_shapes(index.shape, bits.shape))] = bits
            return
        shape = np.broadcast_shapes(index.shape, bits.shape, self.mask.shape)
        on = np.broadcast_to(self.mask, shape)
        self.raw[np.broadcast_to(index, shape)[on]] = np.broadcast_to(bits, shape)[on]

    def _all_in(self, members: NDArray[np.bool_], index: NDArray[Any]) -> bool:
        inside = members.take(index, mode="clip")
        return bool((inside if self.mask is None else inside | ~self.mask).all())

    def _checked_one_by_one(self, count: int, members: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Raise at the first lane outside; return zeros when the mask leaves none (an empty tensor, all lanes off)."""
        bad: Any = (self.offset < 0) | (self.offset >= count)
        if members is not None and count:
            bad |= ~members.take(np.clip(self.offset, 0, count - 1))
        if self.mask is not None:
            bad = bad & self.mask
        if bad.any():
            who, position = self._first(bad, self.offset)
            what = self.allocation.describe(position, self.itemsize)
            raise OutOfBounds(f"{self.access.verb} outside `{self.allocation.name}`: {what}, {who}")
        return np.zeros_like(self.offset)

    def _refuse_poison(self, bits: NDArray[Any], index: NDArray[Any]) -> None:
        hit: Any = bits == bits.dtype.type(self.allocation.poison)
        if hit.any() and self.mask is not None:
            hit = hit & self.mask
        if hit.any():
            who, position = self._first(hit, index)
            raise NeverWritten(
                f"{self.access.verb} of `{self.allocation.name}` reads memory that nobody wrote: element {position} of {len(self.raw)} "
                f"(shape {self.allocation.shape}), {who}"
            )

    def _first(self, bad: NDArray[np.bool_], offset: NDArray[Any]) -> tuple[str, int]:
        """Return who and where of the first marked lane, and its offset."""
        instance, lane, index = positions_of(self.run, bad)
        lanes = "" if not lane else f", lane {lane[0] if len(lane) == 1 else lane}"
        who = f"program {self.run.program(instance)}{lanes}, at {self.access.where()}"
        return who, int(np.broadcast_to(offset, bad.shape)[index])


def touches(run: Run, access: Access, pointers: Pointers, mask: Any) -> Iterator[Touch]:
    """Yield a touch for each tensor that the pointers point to, under its part of the mask and the active instances."""
    mask = run.under_active(mask, len(access.shape))
    if isinstance(pointers.origin, int):
        yield Touch(run, access, run.allocations[pointers.origin], pointers.offset, mask)
        return
    for origin in np.unique(pointers.origin):
        here = pointers.origin == origin
        yield Touch(run, access, run.allocations[int(origin)], pointers.offset, here if mask is None else here & mask)


def load(run: Run, access: Access, pointers: Pointers, mask: Any, other: Any) -> Any:
    """Return what lies at the pointers; masked-off elements are `other`, or zero where it is None (as on an H200).

    Raises:
        OutOfBounds: at the first element outside its tensor.
        NeverWritten: at the first element that still holds poison.

    """
    result: Any = None
    for touch in touches(run, access, pointers, mask):
        values = touch.load()
        result = values if result is None else np.where(touch.mask, values, result)
    mask = run.under_active(mask, len(access.shape))
    if mask is None or (other is None and mask.all()):
        return result
    return np.where(mask, result, result.dtype.type(0) if other is None else other)


def store(run: Run, access: Access, pointers: Pointers, value: NDArray[Any], mask: Any) -> None:
    """Write the values to the pointers.

    Raises:
        OutOfBounds: at the first element outside its tensor.

    """
    for touch in touches(run, access, pointers, mask):
        touch.store(value)

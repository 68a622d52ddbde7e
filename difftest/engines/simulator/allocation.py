"""The memory of one tensor argument: its elements as raw bits, and which positions belong to it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.poison import is_evidence, poison_pattern

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


class Allocation:
    """One tensor of a launch, seen from its first element to its last in memory.

    A contiguous tensor owns every position of that extent. A strided view owns only its own elements, so a gap between rows and a
    neighbour's elements are outside.
    """

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self.name = name
        self.tensor = tensor
        self.shape, self.strides = tuple(tensor.shape), tuple(tensor.stride())
        self.itemsize = tensor.dtype.itemsize
        self.extent = _extent(self.shape, self.strides)
        self._raw: dict[int, NDArray[Any]] = {}
        self._members: dict[int, NDArray[np.bool_] | None] = {}

    @cached_property
    def poison(self) -> int | None:
        """The bits of an element that nobody wrote, or None where equal bits prove nothing."""
        return poison_pattern(self.tensor.dtype) if is_evidence(self.tensor.dtype) else None

    def raw(self, itemsize: int) -> NDArray[Any]:
        """Return the extent as unsigned integers of `itemsize` bytes: a view of the tensor's memory."""
        if itemsize not in self._raw:
            whole = self._bytes()
            self._raw[itemsize] = whole[: len(whole) // itemsize * itemsize].view(f"u{itemsize}")
        return self._raw[itemsize]

    def members(self, itemsize: int) -> NDArray[np.bool_] | None:
        """Return which positions of `raw(itemsize)` belong to the tensor; None means all of them."""
        if itemsize not in self._members:
            self._members[itemsize] = None if self._owns_its_extent() else self._owned(itemsize)
        return self._members[itemsize]

    def describe(self, position: int, itemsize: int) -> str:
        """Return "element 640 of 640 (shape (1, 10, 64))" for a position outside, or what lies there."""
        count = len(self.raw(itemsize))
        strides = "" if self.tensor.is_contiguous() else f", strides {self.strides}"
        gap = ", in a gap of the view" if 0 <= position < count and self.members(itemsize) is not None else ""
        width = "" if itemsize == self.itemsize else f" (of {itemsize} bytes)"
        return f"element {position} of {count}{width}{gap} (shape {self.shape}{strides})"

    def _bytes(self) -> NDArray[np.uint8]:
        import torch  # noqa: PLC0415 - loading difftest must not load torch

        if self.extent == 0:
            return np.empty(0, dtype=np.uint8)
        tensor = self.tensor.detach()
        storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        start = tensor.storage_offset() * self.itemsize
        whole: NDArray[np.uint8] = storage.numpy()[start : start + self.extent * self.itemsize]
        return whole

    def _owns_its_extent(self) -> bool:
        return self.tensor.is_contiguous() or self.extent == 0 or bool(self._owned(self.itemsize).all())

    def _owned(self, itemsize: int) -> NDArray[np.bool_]:
        owned = np.zeros(self.extent, dtype=np.bool_)
        np.lib.stride_tricks.as_strided(owned, self.shape, self.strides)[...] = True
        if itemsize == self.itemsize:
            return owned
        of_bytes = np.repeat(owned, self.itemsize)
        owned_items: Any = of_bytes[: len(of_bytes) // itemsize * itemsize].reshape(-1, itemsize).all(axis=1)
        return owned_items  # type: ignore[no-any-return]


def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))

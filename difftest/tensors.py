"""`Tensors`: tensors made from a seed and a name, with the same bits on every device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from difftest.errors import InvalidCase, suggestion
from difftest.fills import Fill, Stream, filled
from difftest.random_bits import word_blocks, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from difftest.case import Case

_ALIGNMENT_BYTES = 16
"""Triton specializes a pointer on this alignment."""

_SPARE_PERIOD = 4096
_TAIL_ELEMENTS = 16
_GARBAGE = Fill(scale=64.0)


class Tensors:
    """Makes tensors from `(seed, name)`: equal seeds and names give equal bits, on a CPU and on a GPU, in every process.

    Elements are functions of (seed, name, logical index), never of the layout or of what was made before; different names give independent
    streams. A layout `Case(offset=..., row_gap=...)` (see `difftest.strategies.layouts`) makes the tensor a view of a larger buffer:
    `offset` spare elements before the first, `row_gap` after each row of the last dimension. Spare elements hold finite garbage. The
    buffer starts at a multiple of 16 bytes, so `offset` alone decides whether the tensor is aligned; without a layout it is contiguous and
    aligned.
    """

    def __init__(self, seed: int, device: torch.device | str) -> None:
        self.seed = seed
        self.device = torch.device(device)

    def floats(
        self, name: str, shape: Sequence[int], dtype: torch.dtype, *, fill: Case | str = "normal", layout: Case | None = None
    ) -> torch.Tensor:
        """Return a tensor of float16, bfloat16, float32 or float64.

        `fill` is a regime (see `difftest.strategies.fills`) or a case with its numbers, such as `Case(regime="normal", scale=0.25)`.

        Raises:
            InvalidCase: for another dtype, an unknown regime or a negative extent.

        """
        values = filled(Stream(self.seed, name), _shape(name, shape), dtype, self.device, Fill.of(fill))
        return self._placed(name, values, layout)

    def integers(  # noqa: PLR0913 - what torch.randint takes, by keyword
        self, name: str, shape: Sequence[int], dtype: torch.dtype, *, low: int, high: int, layout: Case | None = None
    ) -> torch.Tensor:
        """Return a tensor of integers from `low` to `high`, both included (as in Hypothesis).

        Raises:
            InvalidCase: when the range is empty, wider than 2**63 - 1 values, or does not fit the dtype.

        """
        _check_range(name, dtype, low, high)
        extents = _shape(name, shape)
        values = torch.empty(math.prod(extents), dtype=torch.int64, device=self.device)
        for where, block in word_blocks(self.seed, name, values.numel(), self.device):
            values[where] = block.bitwise_and_((1 << 63) - 1).remainder_(high - low + 1).add_(low)
        return self._placed(name, values.to(dtype).reshape(extents), layout)

    def permutation(self, name: str, count: int) -> torch.Tensor:
        """Return the numbers 0 to `count - 1` in an order that depends on the seed and the name, int64 `(count,)`."""
        return torch.argsort(words(self.seed, name, count, self.device), stable=True)

    def from_values(self, values: Any, dtype: torch.dtype, layout: Case | None = None) -> torch.Tensor:
        """Return a tensor of the given numbers (nested sequences, an array or a tensor) in the given layout."""
        source = values.detach() if isinstance(values, torch.Tensor) else torch.tensor(values, dtype=dtype)
        return self._placed("values", source.to(device=self.device, dtype=dtype, copy=True).contiguous(), layout)

    def _placed(self, name: str, values: torch.Tensor, layout: Case | None) -> torch.Tensor:
        offset, row_gap = _layout(name, layout)
        if not (offset or row_gap or values.data_ptr() % _ALIGNMENT_BYTES):
            return values
        strides = _strides(values.shape, row_gap)
        span = math.prod(values.shape[:-1]) * (values.shape[-1] + row_gap) if values.dim() else 1
        buffer = aligned(self._spare(name, offset + span + _TAIL_ELEMENTS, values.dtype))
        return buffer.as_strided(values.shape, strides, buffer.storage_offset() + offset).copy_(values)

    def _spare(self, name: str, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Return finite garbage with room for alignment; it repeats, which is cheap and random enough for what nobody may read."""
        count += _ALIGNMENT_BYTES // dtype.itemsize
        period = min(count, _SPARE_PERIOD)
        if dtype.is_floating_point:
            garbage = filled(Stream(self.seed, f"{name}/spare"), (period,), dtype, self.device, _GARBAGE)
        else:
            garbage = words(self.seed, f"{name}/spare", period, self.device).to(dtype)
        return garbage.repeat(-(-count // period))[:count]


def aligned(buffer: torch.Tensor) -> torch.Tensor:
    """Return the part of a 1-D buffer that starts at its first multiple of 16 bytes."""
    skipped_bytes = -buffer.data_ptr() % _ALIGNMENT_BYTES
    return buffer[skipped_bytes // buffer.element_size() :]


def _strides(shape: Sequence[int], row_gap: int) -> tuple[int, ...]:
    """Return strides in elements of rows that stand `row_gap` apart."""
    strides, step = [], 1
    for position, extent in enumerate(reversed(shape)):
        strides.append(step)
        step *= extent + (row_gap if position == 0 else 0)
    return tuple(reversed(strides))


def _layout(name: str, layout: Case | None) -> tuple[int, int]:
    fields = {"offset": 0, "row_gap": 0}
    for field, value in (layout or {}).items():
        if field not in fields:
            raise InvalidCase(f"{name}: {field!r} is not a field of a layout{suggestion(field, fields)}")
        if not isinstance(value, int) or value < 0:
            raise InvalidCase(f"{name}: layout {field}={value!r} is not a number of elements; give an int from 0 up")
        fields[field] = value
    return fields["offset"], fields["row_gap"]


def _shape(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    for extent in shape:
        if extent < 0:
            raise InvalidCase(f"{name}: shape {tuple(shape)!r} has the negative extent {extent}; give extents from 0 up")
    return tuple(shape)


def _check_range(name: str, dtype: torch.dtype, low: int, high: int) -> None:
    lowest, highest = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    if low > high:
        raise InvalidCase(f"{name}: low={low} is above high={high}; both are included, so give low <= high")
    if low < lowest or high > highest:
        raise InvalidCase(f"{name}: {low} to {high} does not fit {dtype}, which holds {lowest} to {highest}")
    if high - low + 1 >= 1 << 63:
        raise InvalidCase(f"{name}: {low} to {high} has 2**63 values or more; give a narrower range")

"""Poison: bit patterns that mark memory which nobody has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Signalling NaNs with a payload that no arithmetic produces, and integers far outside what kernels compute. One-byte types have too few
# patterns for a value to be evidence: they are poisoned, but an equal value proves nothing.
_PATTERNS = {1: 0x5A, 2: 0x5AA5, 4: 0x5AA5_A55A, 8: 0x5AA5_A55A_5AA5_A55A}
_FLOAT_PATTERNS = {"bfloat16": 0x7FA5, "float16": 0x7D5A, "float32": 0x7FA5_A5A5, "float64": 0x7FF4_A5A5_A5A5_A5A5}


def poison_pattern(dtype: torch.dtype) -> int:
    """Return the bits (an unsigned integer of the dtype's width) that an unwritten element of `dtype` holds."""
    name = str(dtype).removeprefix("torch.")
    return _FLOAT_PATTERNS.get(name, _PATTERNS[min(dtype.itemsize, 8)])


def is_evidence(dtype: torch.dtype) -> bool:
    """Whether an element equal to the pattern was, in practice, never written."""
    return dtype.itemsize >= 2 and not dtype.is_complex


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with the poison of its dtype, in place, and return it; a complex or boolean tensor is left as it is."""
    import torch  # noqa: PLC0415 - loading difftest must not load torch

    if tensor.numel() and not tensor.dtype.is_complex and tensor.dtype != torch.bool:
        bits(tensor).fill_(_signed(poison_pattern(tensor.dtype), tensor.dtype.itemsize))
    return tensor


def holds_poison(tensor: torch.Tensor) -> torch.Tensor:
    """Return a boolean tensor of the same shape: where an element equals its poison by bits, in dtypes where that is evidence."""
    import torch  # noqa: PLC0415

    if not is_evidence(tensor.dtype):
        return torch.zeros_like(tensor, dtype=torch.bool)
    return bits(tensor) == _signed(poison_pattern(tensor.dtype), tensor.dtype.itemsize)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's memory seen as signed integers of the same width (a view)."""
    import torch  # noqa: PLC0415

    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize])


def _signed(pattern: int, itemsize: int) -> int:
    width = 8 * itemsize
    return pattern - (1 << width) if pattern >> (width - 1) else pattern

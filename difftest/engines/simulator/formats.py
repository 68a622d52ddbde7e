"""How each element type is held in arrays, how it lies in memory, and how it rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.errors import Unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A NaN that a conversion to bfloat16 makes on NVIDIA hardware (PTX ISA, cvt: NaN results are canonical).
_BF16_NAN = np.uint32(0x7FFF_0000)


@dataclass(frozen=True)
class Format:
    """An element type: `held` is the dtype of arrays of it, `stored` the unsigned integer that carries its bits in memory."""

    name: str
    bits: int
    held: np.dtype[Any]
    is_float: bool = False

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element in memory."""
        return max(self.bits // 8, 1)

    @property
    def stored(self) -> np.dtype[Any]:
        """Return the unsigned dtype of the element's width."""
        return np.dtype(f"u{self.itemsize}")


# bfloat16 and float16 are held as float32 that is rounded after each operation: 24 bits are enough for + - * / and sqrt to round once.
FORMATS = {
    "i1": Format("i1", 1, np.dtype(np.bool_)),
    "i8": Format("i8", 8, np.dtype(np.int8)),
    "i16": Format("i16", 16, np.dtype(np.int16)),
    "i32": Format("i32", 32, np.dtype(np.int32)),
    "i64": Format("i64", 64, np.dtype(np.int64)),
    "f16": Format("f16", 16, np.dtype(np.float32), is_float=True),
    "bf16": Format("bf16", 16, np.dtype(np.float32), is_float=True),
    "f32": Format("f32", 32, np.dtype(np.float32), is_float=True),
    "f64": Format("f64", 64, np.dtype(np.float64), is_float=True),
}


def format_of(element: str) -> Format:
    """Return the facts of an element type such as `bf16`.

    Raises:
        Unsupported: for a type that the simulator does not hold.

    """
    if element not in FORMATS:
        raise Unsupported(f"the simulator does not hold elements of type {element!r}; run this kernel on a GPU")
    return FORMATS[element]


def rounded(values: NDArray[Any], element: str) -> NDArray[Any]:
    """Return float values rounded once, to nearest even, to what `element` can hold; values are float32 or float64."""
    if element == "f32":
        return values if values.dtype == np.float32 else values.astype(np.float32)
    if element == "f64":
        return values if values.dtype == np.float64 else values.astype(np.float64)
    if element == "f16":
        return values.astype(np.float16).astype(np.float32)
    return _rounded_to_bfloat16(values if values.dtype == np.float32 else _float32_by_rounding_to_odd(values))


def _rounded_to_bfloat16(values: NDArray[Any]) -> NDArray[Any]:
    bits = values.view(np.uint32)
    # Half of the last place, less one when that place is even: the carry of the sum rounds to nearest even.
    result = bits >> np.uint32(16)
    result &= np.uint32(1)
    result += np.uint32(0x7FFF)
    result += bits
    result &= np.uint32(0xFFFF_0000)
    nan = values != values  # noqa: PLR0124 - NaN is what differs from itself
    if nan.any():
        result[nan] = _BF16_NAN
    return result.view(np.float32)


def _float32_by_rounding_to_odd(values: NDArray[Any]) -> Any:
    """Return float32 whose last bit is sticky, so that a second rounding gives what one rounding would have given."""
    near = values.astype(np.float32)
    back = near.astype(np.float64)
    inexact = back != values
    bits = near.view(np.uint32) - (inexact & (np.abs(back) > np.abs(values))).astype(np.uint32)
    return (bits | inexact).view(np.float32)


def from_stored(bits: NDArray[Any], element: str) -> Any:
    """Return the values whose memory holds `bits` (unsigned integers of the element's width)."""
    if element == "bf16":
        wide = bits.astype(np.uint32)
        wide <<= np.uint32(16)
        return wide.view(np.float32)
    if element == "f16":
        return bits.view(np.float16).astype(np.float32)
    if element == "i1":
        return bits != 0
    return bits.view(FORMATS[element].held)


def to_stored(values: NDArray[Any], element: str) -> NDArray[Any]:
    """Return the bits (unsigned integers of the element's width) of values that `element` can hold."""
    if element == "bf16":
        return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if element == "f16":
        return values.astype(np.float16).view(np.uint16)
    if element == "i1":
        return values.astype(np.uint8)
    return values.view(FORMATS[element].stored)


def from_python(value: Any, element: str) -> NDArray[Any]:
    """Return a Python number as an array of shape (1,): integers wrap, floats round."""
    form = format_of(element)
    if form.is_float:
        return rounded(np.array([float(value)]), element)
    if element == "i1":
        return np.array([bool(value)])
    wrapped = int(value) & ((1 << form.bits) - 1)
    return np.array([wrapped], dtype=form.stored).view(form.held)

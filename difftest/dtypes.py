"""Facts of each dtype that an output may have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch

from difftest.errors import UnknownName, suggestion

_FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
_SAME_SIZE = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


@dataclass(frozen=True, kw_only=True)
class DtypeFacts:
    """What rounding and comparing need to know of a dtype.

    `mantissa_bits` counts the stored bits, so the ULP at 1.0 is `2 ** -mantissa_bits`, which is `eps`. For integers it is 0, the ULP
    and the smallest values are 1, and `largest` is the largest integer.
    """

    name: str
    bits: int
    is_float: bool
    mantissa_bits: int
    eps: float
    largest: float
    smallest_normal: float
    smallest_subnormal: float
    has_infinity: bool

    @property
    def ulp_at_largest(self) -> float:
        """Return the distance between the two largest finite values."""
        return _binade(self.largest) * self.eps if self.is_float else 1.0


@cache
def facts(dtype: torch.dtype) -> DtypeFacts:
    """Return the facts of a dtype.

    Raises:
        UnknownName: for a dtype that is not judged, such as a complex one.

    """
    name = dtype_name(dtype)
    if name not in known_dtypes():
        raise UnknownName(f"dtype {name!r} is not judged{suggestion(name, known_dtypes())}")
    return _float_facts(name, dtype) if dtype.is_floating_point else _integer_facts(name, dtype)


@cache
def known_dtypes() -> tuple[str, ...]:
    """Return the names of the dtypes that the installed torch has and difftest judges."""
    return tuple(name for name in (*_FLOATS, *_INTEGERS) if isinstance(getattr(torch, name, None), torch.dtype))


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's name of a dtype without the module: `"bfloat16"`."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: str) -> torch.dtype:
    """Return the dtype of that name.

    Raises:
        UnknownName: with the closest name.

    """
    if name not in known_dtypes():
        raise UnknownName(f"no dtype {name!r}{suggestion(name, known_dtypes())}")
    found: torch.dtype = getattr(torch, name)
    return found


def is_judged(dtype: torch.dtype) -> bool:
    """Return whether outputs of the dtype can be compared."""
    return dtype_name(dtype) in known_dtypes()


def bits_of(values: torch.Tensor) -> torch.Tensor:
    """Return the bits of a tensor as signed integers of the same size: a view of the same shape."""
    return values.view(_SAME_SIZE[values.element_size() * 8])


def _float_facts(name: str, dtype: torch.dtype) -> DtypeFacts:
    info = torch.finfo(dtype)
    return DtypeFacts(
        name=name,
        bits=info.bits,
        is_float=True,
        mantissa_bits=-_exponent(info.eps),
        eps=info.eps,
        largest=info.max,
        smallest_normal=info.smallest_normal,
        smallest_subnormal=info.smallest_normal * info.eps,
        has_infinity=not name.endswith("fn"),
    )


def _integer_facts(name: str, dtype: torch.dtype) -> DtypeFacts:
    bits, largest = (8, 1) if dtype is torch.bool else (torch.iinfo(dtype).bits, torch.iinfo(dtype).max)
    return DtypeFacts(
        name=name,
        bits=bits,
        is_float=False,
        mantissa_bits=0,
        eps=1.0,
        largest=largest,
        smallest_normal=1.0,
        smallest_subnormal=1.0,
        has_infinity=False,
    )


def _exponent(value: float) -> int:
    return math.frexp(value)[1] - 1


def _binade(value: float) -> float:
    return float(2.0 ** _exponent(value))

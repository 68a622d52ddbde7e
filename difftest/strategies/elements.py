"""`dtypes`, `layouts`, `fills` and `seeds`: what the elements of tensors are and how they lie in memory."""

from __future__ import annotations

from hypothesis import strategies as st

from difftest.case import Case
from difftest.strategies.arguments import check_int, check_names
from difftest.strategies.edges import extents

_DTYPES = (
    "float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32", "int64", "uint8", "bool",
)  # fmt: skip

FINITE_REGIMES = ("normal", "constant", "offset_mean", "large", "denormal", "signed_zeros", "zero_rows", "outlier", "integers")
NONFINITE_REGIME = "nonfinite"

_OFFSETS = (0, 1, 16, 3, 8)
"""Elements before the first: 16 keep the 16-byte alignment for every dtype, 8 for dtypes of two bytes and more, 1 and 3 for none."""


def dtypes(*names: str) -> st.SearchStrategy[str]:
    """Return a strategy for dtype names of torch, such as "bfloat16", or of a pair, such as "float32_to_bfloat16".

    Shrinks towards the first name given.

    Raises:
        InvalidStrategy: for no name, or one that is not a dtype.

    """
    parts = [part for name in names for part in str(name).split("_to_")]
    check_names("dtypes", "dtype", parts, _DTYPES)
    return st.sampled_from(tuple(dict.fromkeys(names)))


def layouts(*, max_offset: int = 16, max_row_gap: int = 17) -> st.SearchStrategy[Case]:
    """Return a strategy for `Case(offset=..., row_gap=...)`: how a tensor lies in a larger buffer, in elements.

    `offset` elements stand before the first, so that it decides whether the tensor starts at a multiple of 16 bytes: in about half of the
    draws it does not. `row_gap` elements stand after each row of the last dimension: the row stride is the row's length and the gap. The
    descriptor goes to `difftest.tensors.Tensors`. Shrinks towards `Case(offset=0, row_gap=0)`: aligned and contiguous.

    Raises:
        InvalidStrategy: when a limit is not an int from 0 up.

    """
    check_int("layouts", "max_offset", max_offset, low=0)
    check_int("layouts", "max_row_gap", max_row_gap, low=0)
    usual = st.sampled_from([offset for offset in _OFFSETS if offset <= max_offset])
    gap = st.one_of(st.just(0), extents(max_value=max_row_gap))
    return st.builds(Case, offset=st.one_of(usual, st.integers(0, max_offset)), row_gap=gap)


def fills(*names: str, nonfinite: bool = False) -> st.SearchStrategy[str]:
    """Return a strategy for fill regimes by name; the numbers come from the seed (see `difftest.tensors.Tensors`).

    - "normal": mean 0, standard deviation 1
    - "constant": one value everywhere, of magnitude 0.5 to 2
    - "offset_mean": normal around 32, so that differences cancel
    - "large": both signs, near the dtype's maximum, but a sum of eight stays finite
    - "denormal": subnormal numbers of the dtype, of every binade
    - "signed_zeros": three in four are zeros, of both signs
    - "zero_rows": normal, but one row in four (at least one) is zero
    - "outlier": normal, but one element is 1024 or -1024
    - "integers": -8 to 8, exact in every dtype
    - "nonfinite": normal, but one element in sixteen (at least one) is infinite or NaN

    `names` keeps only some; `nonfinite=True` adds that regime, which is never drawn otherwise unless it is named. Shrinks towards the first
    name given, "normal" when none is.

    Raises:
        InvalidStrategy: for a name that is not a regime.

    """
    chosen = check_names("fills", "fill regime", names or FINITE_REGIMES, (*FINITE_REGIMES, NONFINITE_REGIME))
    return st.sampled_from(tuple(dict.fromkeys([*chosen, *([NONFINITE_REGIME] if nonfinite else [])])))


def seeds() -> st.SearchStrategy[int]:
    """Return a strategy for the seeds that fill tensors, 0 to 2**32 - 1. Shrinks towards 0."""
    return st.integers(0, 2**32 - 1)

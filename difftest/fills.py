"""Fill regimes: what the elements of a floating-point tensor are.

Each regime is made of hashed bits by exact conversions and single correctly rounded multiplications and additions, so that a CPU and a GPU
give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from difftest.errors import InvalidCase, suggestion
from difftest.random_bits import word, word_blocks

if TYPE_CHECKING:
    from difftest.case import Case

_BIT_PATTERNS = {
    torch.float16: (torch.int16, 10),
    torch.bfloat16: (torch.int16, 7),
    torch.float32: (torch.int32, 23),
    torch.float64: (torch.int64, 52),
}
"""Integer dtype of the same width, and stored mantissa bits."""

_NORMAL_CENTRE = 2 * 0xFFFF
_NORMAL_STD = math.sqrt(((1 << 32) - 1) / 3)
"""Mean and standard deviation of the sum of four 16-bit uniform integers."""

_LANES = 0x0000FFFF0000FFFF
_OUTLIER = 1024.0
_INTEGER_LIMIT = 8


@dataclass(frozen=True)
class Fill:
    """A fill regime with its numbers.

    Attributes:
        regime: its name, one of `REGIMES`.
        scale: standard deviation of the normal part; regimes without one ignore it.
        mean: mean of `offset_mean`, in units of `scale`.
        terms: `large` stays under the dtype's maximum divided by this, so that a sum of so many terms does not overflow.

    """

    regime: str = "normal"
    scale: float = 1.0
    mean: float = 32.0
    terms: int = 8

    @classmethod
    def of(cls, fill: Case | str) -> Fill:
        """Return the fill that a regime name, or a case such as `Case(regime="normal", scale=0.25)`, stands for.

        Raises:
            InvalidCase: for an unknown regime or field.

        """
        fields = {"regime": fill} if isinstance(fill, str) else dict(fill)
        for name in fields:
            if name not in cls.__dataclass_fields__:
                raise InvalidCase(f"{name!r} is not a field of a fill{suggestion(name, cls.__dataclass_fields__)}")
        result = cls(**fields)
        if result.regime not in REGIMES:
            raise InvalidCase(f"{result.regime!r} is not a fill regime{suggestion(result.regime, REGIMES)}")
        if result.terms < 1:
            raise InvalidCase(f"terms={result.terms!r} of a fill is below 1; give how many terms are summed")
        return result


def filled(stream: Stream, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, fill: Fill) -> torch.Tensor:
    """Return a contiguous tensor of `shape` whose elements follow the regime.

    Raises:
        InvalidCase: when the dtype is none of float16, bfloat16, float32, float64.

    """
    if dtype not in _BIT_PATTERNS:
        known = ", ".join(str(known).removeprefix("torch.") for known in _BIT_PATTERNS)
        raise InvalidCase(f"{stream.name}: no fill regime for {dtype}; floats are {known}; use Tensors.integers for the others")
    result = torch.empty(math.prod(shape), dtype=dtype, device=device)
    elements, selected = _ELEMENTS[fill.regime]
    selectors = word_blocks(stream.seed, f"{stream.name}/select", result.numel(), device)
    for where, block in word_blocks(stream.seed, stream.name, result.numel(), device):
        select = next(selectors)[1] if selected else block
        result[where] = elements(block, select, dtype, fill)
    if result.numel() and fill.regime in _WHOLE:
        _WHOLE[fill.regime](result, shape, stream, fill)
    return result.reshape(shape)


@dataclass(frozen=True)
class Stream:
    """Where the bits of a tensor come from: a seed and the tensor's name; `word("row")` is one number of these two and "row"."""

    seed: int
    name: str

    def word(self, choice: str) -> int:
        """Return the unsigned 64-bit number of a choice."""
        return word(self.seed, f"{self.name}/{choice}")


Elements = Callable[[torch.Tensor, torch.Tensor, torch.dtype, Fill], torch.Tensor]


def _normal(words: torch.Tensor, _select: torch.Tensor, dtype: torch.dtype, fill: Fill) -> torch.Tensor:
    return _centred_sum(words, dtype).mul_(_rounded(fill.scale / _NORMAL_STD, dtype)).to(dtype)


def _offset_mean(words: torch.Tensor, _select: torch.Tensor, dtype: torch.dtype, fill: Fill) -> torch.Tensor:
    spread = _centred_sum(words, dtype).mul_(_rounded(fill.scale / _NORMAL_STD, dtype))
    return spread.add_(_rounded(fill.mean * fill.scale, dtype)).to(dtype)


def _large(words: torch.Tensor, _select: torch.Tensor, dtype: torch.dtype, fill: Fill) -> torch.Tensor:
    """Return values of magnitude 1/2 to 15/16 of the largest allowed: the rest of the way is room for rounding to the dtype."""
    magnitude = (words & 0xFFFF).mul_(7).add_(8 << 16)
    signed = torch.where(words < 0, -magnitude, magnitude).to(_compute_dtype(dtype))
    return signed.mul_(_rounded(torch.finfo(dtype).max / fill.terms / (16 << 16), dtype)).to(dtype)


def _denormal(words: torch.Tensor, _select: torch.Tensor, dtype: torch.dtype, _fill: Fill) -> torch.Tensor:
    """Return subnormals of every binade, made as bit patterns: no arithmetic that could flush them."""
    integer, mantissa_bits = _BIT_PATTERNS[dtype]
    shift = ((words >> 52) & 0x7FF).remainder_(mantissa_bits)
    magnitude = (words & ((1 << mantissa_bits) - 1)).bitwise_right_shift_(shift).clamp_(min=1)
    return torch.where(words < 0, magnitude + torch.iinfo(integer).min, magnitude).to(integer).view(dtype)


def _signed_zeros(words: torch.Tensor, select: torch.Tensor, dtype: torch.dtype, fill: Fill) -> torch.Tensor:
    eighth = select & 7
    values = _normal(words, select, dtype, fill)
    values.masked_fill_(eighth < 3, 0.0)
    return values.masked_fill_((eighth >= 3) & (eighth < 6), -0.0)


def _integers(words: torch.Tensor, _select: torch.Tensor, dtype: torch.dtype, _fill: Fill) -> torch.Tensor:
    return (words & 0xFFFF).remainder_(2 * _INTEGER_LIMIT + 1).sub_(_INTEGER_LIMIT).to(dtype)


def _nonfinite(words: torch.Tensor, select: torch.Tensor, dtype: torch.dtype, fill: Fill) -> torch.Tensor:
    values = _normal(words, select, dtype, fill)
    kind = (select >> 4) & 3
    struck = (select & 15) == 0
    for number in range(4):
        _set_bits(values, struck & (kind == number), _nonfinite_bits(number, dtype))
    return values


def _constant(whole: torch.Tensor, _shape: tuple[int, ...], stream: Stream, fill: Fill) -> None:
    """Set every element to one value of magnitude 0.5 to 2 (times the scale)."""
    chosen = stream.word("constant")
    value = (0.5 + 1.5 * (chosen & 0xFFFF) / 0x10000) * fill.scale
    whole.fill_(_rounded(-value if chosen >> 63 else value, whole.dtype))


def _zero_rows(whole: torch.Tensor, shape: tuple[int, ...], stream: Stream, _fill: Fill) -> None:
    """Zero one row in four, and at least one; a row is one index of all dimensions but the last (one element of a vector)."""
    rows = whole.view(-1, shape[-1] if len(shape) > 1 else 1)
    count = rows.shape[0]
    for where, block in word_blocks(stream.seed, f"{stream.name}/rows", count, whole.device):
        rows[where].masked_fill_(((block & 3) == 0)[:, None], 0.0)
    rows[stream.word("row") % count] = 0.0


def _outlier(whole: torch.Tensor, _shape: tuple[int, ...], stream: Stream, fill: Fill) -> None:
    chosen = stream.word("outlier")
    whole[chosen % whole.numel()] = _rounded(math.copysign(_OUTLIER, 0.5 - (chosen >> 63)) * fill.scale, whole.dtype)


def _one_nonfinite(whole: torch.Tensor, _shape: tuple[int, ...], stream: Stream, _fill: Fill) -> None:
    """Make at least one element infinite or NaN, however small the tensor is."""
    chosen = stream.word("nonfinite")
    integer = _BIT_PATTERNS[whole.dtype][0]
    whole.view(integer)[chosen % whole.numel()] = _nonfinite_bits(chosen >> 62, whole.dtype)


_ELEMENTS: dict[str, tuple[Elements, bool]] = {
    "normal": (_normal, False),
    "constant": (_normal, False),
    "offset_mean": (_offset_mean, False),
    "large": (_large, False),
    "denormal": (_denormal, False),
    "signed_zeros": (_signed_zeros, True),
    "zero_rows": (_normal, False),
    "outlier": (_normal, False),
    "integers": (_integers, False),
    "nonfinite": (_nonfinite, True),
}
"""Regime to the function of its elements, and whether that needs a second, independent word an element."""

_WHOLE: dict[str, Callable[[torch.Tensor, tuple[int, ...], Stream, Fill], None]] = {
    "constant": _constant,
    "zero_rows": _zero_rows,
    "outlier": _outlier,
    "nonfinite": _one_nonfinite,
}

REGIMES = tuple(_ELEMENTS)


def _centred_sum(words: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the sum of the four 16-bit parts of each word less its mean, exactly (Irwin-Hall: nearly normal, within 3.46 deviations)."""
    pairs = ((words >> 16) & _LANES).add_(words & _LANES)
    total = (pairs >> 32).add_(pairs & 0xFFFFFFFF).sub_(_NORMAL_CENTRE)
    return total.to(_compute_dtype(dtype))


def _compute_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _rounded(value: float, dtype: torch.dtype) -> float:
    """Return `value` rounded to the dtype that is computed in, so that no device rounds the scalar in its own way."""
    return value if dtype == torch.float64 else float(torch.tensor(value, dtype=torch.float32).item())


def _nonfinite_bits(number: int, dtype: torch.dtype) -> int:
    """Return the bits of infinity (0), minus infinity (1) or the canonical quiet NaN (2, 3): devices convert a NaN to different ones."""
    integer, mantissa_bits = _BIT_PATTERNS[dtype]
    infinity = torch.iinfo(integer).max - ((1 << mantissa_bits) - 1)
    return (infinity, infinity + torch.iinfo(integer).min, *[infinity + (1 << (mantissa_bits - 1))] * 2)[number]


def _set_bits(values: torch.Tensor, mask: torch.Tensor, bits: int) -> None:
    values.view(_BIT_PATTERNS[values.dtype][0]).masked_fill_(mask, bits)

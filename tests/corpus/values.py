"""Deterministic inputs: special values of every dtype, all pairs of them, and numbers from an integer hash.

Everything is made from bits with integer operations, so that two machines get the same inputs.
"""

from __future__ import annotations

import numpy as np
import torch

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
COUNT = 500  # elements of an elementwise entry: 4 programs of 128, the last one with a tail
BLOCK = 128
EXPONENT_AND_MANTISSA = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def noise(count: int, salt: int) -> np.ndarray:
    """Return `count` uint64 hashes (splitmix64) of the element index and `salt`."""
    h = (np.arange(count, dtype=np.uint64) + np.uint64(1 + 1000003 * salt)) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def from_bits(dtype: str, bits: np.ndarray) -> torch.Tensor:
    """Return the tensor of `dtype` with these bits (low ones taken)."""
    target = getattr(torch, dtype)
    plain = np.ascontiguousarray(bits.astype(f"uint{target.itemsize * 8}"))
    return torch.from_numpy(plain.view(np.uint8)).clone().view(target)


def exact(dtype: str, numbers: object) -> torch.Tensor:
    """Return numbers that `dtype` represents exactly."""
    return torch.tensor(np.asarray(numbers)).to(getattr(torch, dtype))


def special_bits(dtype: str) -> np.ndarray:
    """Return the bits of 16 special values: zeros, subnormals, extremes, infinities, NaN, ordinary ones; for integers the edges."""
    if dtype in EXPONENT_AND_MANTISSA:
        return _special_float_bits(*EXPONENT_AND_MANTISSA[dtype])
    width = getattr(torch, dtype).itemsize * 8
    top = 1 << (width - 1)
    edges = [0, 1, 2, 3, 7, 10, 100, top - 1, top - 2, top, top + 1, -1, -2, -7, -100, top // 2]
    return np.array([edge % (1 << width) for edge in edges], dtype=np.uint64)


def _special_float_bits(exponent: int, mantissa: int) -> np.ndarray:
    unit = 1 << mantissa
    infinity = ((1 << exponent) - 1) * unit
    one = ((1 << (exponent - 1)) - 1) * unit
    sign = 1 << (exponent + mantissa)
    ordinary = [one, one + unit // 2, one + unit + unit // 4, one - 3 * unit - unit // 3, sign + one, sign + one - unit]
    edges = [0, 1, unit - 1, unit, infinity - 1, infinity, infinity + unit // 2]
    return np.array([*edges, sign, sign + infinity, sign + infinity - 1, *ordinary[:3], *ordinary[3:]], dtype=np.uint64)


def random_float_bits(dtype: str, count: int, salt: int, *, span: int = 6, signed: bool = True) -> np.ndarray:
    """Return bits of normal numbers with magnitudes in [2**-span, 2**span), the mantissa's bits all in use."""
    exponent, mantissa = EXPONENT_AND_MANTISSA[dtype]
    h = noise(count, salt)
    biased = np.uint64((1 << (exponent - 1)) - 1 - span) + (h >> np.uint64(8)) % np.uint64(2 * span)
    bits = biased << np.uint64(mantissa) | noise(count, salt + 7919) & np.uint64((1 << mantissa) - 1)
    sign = (h & np.uint64(1)) << np.uint64(exponent + mantissa)
    return bits | sign if signed else bits


def random_bits(dtype: str, count: int, salt: int) -> np.ndarray:
    """Return random bits: any integer of the dtype, an ordinary number of a float dtype."""
    return random_float_bits(dtype, count, salt) if dtype in EXPONENT_AND_MANTISSA else noise(count, salt)


def floats(dtype: str, count: int, salt: int = 1, *, span: int = 6, signed: bool = True) -> torch.Tensor:
    """Return ordinary numbers of a float dtype, no special values."""
    return from_bits(dtype, random_float_bits(dtype, count, salt, span=span, signed=signed))


def integers(dtype: str, count: int, salt: int = 1, *, low: int, high: int) -> torch.Tensor:
    """Return whole numbers in [low, high), as any dtype that represents them exactly."""
    numbers = (noise(count, salt) % np.uint64(high - low)).astype(np.int64) + low
    return exact(dtype, numbers)


def singles(dtype: str, count: int = COUNT, salt: int = 1) -> torch.Tensor:
    """Return the special values, then random ones."""
    if dtype == "bool":
        return exact(dtype, noise(count, salt) & np.uint64(1)).bool()
    special = special_bits(dtype)
    return from_bits(dtype, np.concatenate([special, random_bits(dtype, count - len(special), salt)]))


def pairs(dtype: str, count: int = COUNT) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two tensors that meet in every pair of special values, then in random ones."""
    special = special_bits(dtype)
    left, right = np.repeat(special, len(special)), np.tile(special, len(special))
    rest = count - len(left)
    return (
        from_bits(dtype, np.concatenate([left, random_bits(dtype, rest, 11)])),
        from_bits(dtype, np.concatenate([right, random_bits(dtype, rest, 12)])),
    )

"""How an output is held against the recorded one: bit for bit, or within units in the last place.

Arrays are the elements' bits as unsigned integers; `dtype` is the torch name of what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52, "float8_e4m3fn": 3, "float8_e5m2": 2}
MINIMUM_EXPONENT = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}
EXPONENT_MASK = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000, "float8_e5m2": 0x7C}
SHOWN = 4  # differing elements in a message


@dataclass(frozen=True)
class Bits:
    """Every bit agrees; NaNs count as one class."""

    def differences(self, actual: np.ndarray, recorded: np.ndarray, dtype: str) -> str:
        """Return "" when the two agree, else which elements differ."""
        if actual.shape != recorded.shape:
            return _shapes(actual, recorded)
        wrong = (actual != recorded) & ~(is_nan(actual, dtype) & is_nan(recorded, dtype))
        return _describe(wrong, actual, recorded, dtype)


@dataclass(frozen=True)
class Ulp:
    """Within `limit` ulps of the recorded value, the ulp taken at `scale` or above; NaN and infinities agree by class and sign.

    `reason` says why the GPU's result is not the correctly rounded one.
    """

    limit: float
    reason: str
    scale: float = 0.0

    def differences(self, actual: np.ndarray, recorded: np.ndarray, dtype: str) -> str:
        """Return "" when the two agree, else which elements differ."""
        if dtype not in MINIMUM_EXPONENT:
            return Bits().differences(actual, recorded, dtype)
        if actual.shape != recorded.shape:
            return _shapes(actual, recorded)
        ours, theirs = values(actual, dtype), values(recorded, dtype)
        with np.errstate(invalid="ignore"):
            close = np.abs(ours - theirs) <= self.limit * ulp_at(np.maximum(np.abs(theirs), self.scale), dtype)
        same = (actual == recorded) | (is_nan(actual, dtype) & is_nan(recorded, dtype))
        return _describe(~(same | (close & np.isfinite(theirs))), actual, recorded, dtype)


@dataclass(frozen=True)
class Positions:
    """Indices counted in an order that Triton leaves open: equal, or recorded as k where the actual is `order[k]`.

    `order` tells, for each place in the GPU's order, which element of the row-major order is there.
    """

    order: tuple[int, ...]
    reason: str

    def differences(self, actual: np.ndarray, recorded: np.ndarray, dtype: str) -> str:
        """Return "" when the two agree, else which elements differ."""
        if actual.shape != recorded.shape:
            return _shapes(actual, recorded)
        wrong = (actual != recorded) & (actual != np.asarray(self.order)[recorded])
        return _describe(wrong, actual, recorded, dtype)


Policy = Bits | Ulp | Positions


def is_nan(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Return where the elements are NaN; nowhere for integers."""
    if dtype == "float8_e4m3fn":
        return (bits & 0x7F) == 0x7F
    if dtype not in EXPONENT_MASK:
        return np.zeros(bits.shape, dtype=bool)
    magnitude = bits & bits.dtype.type((1 << (bits.dtype.itemsize * 8 - 1)) - 1)
    return magnitude > bits.dtype.type(EXPONENT_MASK[dtype])


def values(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Return the elements as float64, exactly."""
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return bits.view(dtype).astype(np.float64)


def ulp_at(magnitude: np.ndarray, dtype: str) -> np.ndarray:
    """Return the spacing of `dtype` at each magnitude; that at zero for infinities and NaN, which are compared by class."""
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    exponent = np.frexp(finite)[1].astype(np.int64) - 1
    exponent = np.where(finite == 0.0, MINIMUM_EXPONENT[dtype], exponent)
    return np.ldexp(1.0, np.maximum(exponent, MINIMUM_EXPONENT[dtype]) - MANTISSA_BITS[dtype])


def _shapes(actual: np.ndarray, recorded: np.ndarray) -> str:
    return f"shape {actual.shape}, recorded {recorded.shape}"


def _describe(wrong: np.ndarray, actual: np.ndarray, recorded: np.ndarray, dtype: str) -> str:
    if not wrong.any():
        return ""
    places = np.argwhere(wrong)
    shown = [_element(tuple(place), actual, recorded, dtype) for place in places[:SHOWN].tolist()]
    return f"{len(places)} of {wrong.size} {dtype} elements differ: " + "; ".join(shown)


def _element(place: tuple[int, ...], actual: np.ndarray, recorded: np.ndarray, dtype: str) -> str:
    ours, theirs = (f"{_readable(array[place], dtype)} (0x{int(array[place]):x})" for array in (actual, recorded))
    return f"{list(place)} actual {ours} recorded {theirs}"


def _readable(bits: np.unsignedinteger, dtype: str) -> str:
    if dtype in MINIMUM_EXPONENT:
        return repr(float(values(np.array([bits]), dtype)[0]))
    signed = dtype.startswith("int")
    return str(int(np.array([bits]).view(dtype)[0]) if signed else int(bits))

"""Float operations: each rounds once, to nearest even, to the element type; NaN and zeros as MLIR defines them."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.formats import format_of, rounded
from difftest.engines.simulator.translation import elementwise
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.engines.simulator.attributes import Attributes
    from difftest.engines.simulator.mlir import Operation


def _max_number(a: Any, b: Any) -> Any:
    """Return the larger; NaN loses, and +0 is larger than -0 (as on an H200)."""
    return _zeros_ordered(np.fmax(a, b), a, b, np.add)


def _min_number(a: Any, b: Any) -> Any:
    return _zeros_ordered(np.fmin(a, b), a, b, lambda x, y: -(-x - y))


def _maximum(a: Any, b: Any) -> Any:
    return _zeros_ordered(np.maximum(a, b), a, b, np.add)


def _minimum(a: Any, b: Any) -> Any:
    return _zeros_ordered(np.minimum(a, b), a, b, lambda x, y: -(-x - y))


def _zeros_ordered(result: Any, a: Any, b: Any, of_zeros: Callable[..., Any]) -> Any:
    """Return the result with the sign settled where two zeros met; numpy leaves it to the order of the operands."""
    zero = result == 0
    return np.where(zero & (a == b), of_zeros(a, b), result) if zero.any() else result


def _erf(values: Any) -> Any:
    from scipy.special import erf  # noqa: PLC0415 - few kernels need it

    return erf(values).astype(values.dtype)


_ROUNDED: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
    "tt.precise_sqrt": np.sqrt,
    "math.sqrt": np.sqrt,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tanh": np.tanh,
    "math.erf": _erf,
    "math.rsqrt": lambda a: (1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype),
}
_EXACT: dict[str, Callable[..., Any]] = {
    "arith.maxnumf": _max_number,
    "arith.minnumf": _min_number,
    "arith.maximumf": _maximum,
    "arith.minimumf": _minimum,
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
}
_FLUSHING = {"math.sqrt", "math.rsqrt", "math.floor", "math.ceil"}  # on float32 their NVIDIA instructions have .ftz


def _flushed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with subnormal float32 taken as the zero of their sign."""
    return lambda a: function(np.where(np.abs(a) < _SMALLEST_NORMAL, np.copysign(np.float32(0), a), a))


_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


@elementwise(*_ROUNDED)
def _rounding(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    function, element = _ROUNDED[op.name], op.result_types[0].element
    if element in {"f32", "f64"}:
        return _flushed(function) if element == "f32" and op.name in _FLUSHING else function
    return lambda *operands: rounded(function(*operands), element)


@elementwise(*_EXACT)
def _exact(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    function = _EXACT[op.name]
    return _flushed(function) if op.name in _FLUSHING and op.result_types[0].element == "f32" else function


@elementwise("tt.clampf")
def _clamp(_op: Operation, attributes: Attributes) -> Callable[..., Any]:
    if attributes.integer("propagateNan") != 0:
        return lambda x, low, high: _minimum(_maximum(x, low), high)
    return _clamp_number


def _clamp_number(x: Any, low: Any, high: Any) -> Any:
    result = _min_number(_max_number(x, low), high)
    if low.size == high.size == 1 and low.flat[0] == -high.flat[0]:
        return np.where(np.isnan(x), np.copysign(high, x), result)  # an H200 clamps to -c..c by the sign bit of x
    return result


@elementwise("math.fma")
def _fused(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    return _fma(op.result_types[0].element)


def _fma(element: str) -> Callable[..., Any]:
    """Return a * b + c rounded once to the element type."""
    if element == "f64":
        return lambda a, b, c: _fma64(a, b, c).astype(np.float64)
    return lambda a, b, c: rounded(_sum_to_odd(a.astype(np.float64) * b, c.astype(np.float64)), element)


@elementwise("arith.remf")
def _remainder(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    """Return NVIDIA's sequence: inexact for large quotients, +0 where C's fmod has the zero of x's sign; 16 bits through float32."""
    element = op.result_types[0].element
    fma = _fma("f64" if element == "f64" else "f32")

    def remainder(x: Any, y: Any) -> Any:
        result = np.where(np.isinf(y), x, fma(-np.trunc(x / y), y, x))
        return result if element in {"f32", "f64"} else rounded(result, element)

    return remainder


def _sum_to_odd(a: Any, b: Any) -> Any:
    """Return a + b in float64 with a sticky last bit, so that rounding to a narrower type rounds once."""
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    towards_zero = (error < 0) != (total < 0)
    return np.where(inexact, np.where(towards_zero, bits - 1, bits + 1), bits).view(np.float64)


_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_libm.fma.restype = ctypes.c_double
_libm.fma.argtypes = [ctypes.c_double] * 3
_fma64 = np.frompyfunc(_libm.fma, 3, 1)


_PREDICATES: dict[int, Callable[..., Any]] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    6: lambda a, b: (a < b) | (a > b),
    7: lambda a, b: (a == a) & (b == b),  # noqa: PLR0124 - NaN is what differs from itself
    8: lambda a, b: ~((a < b) | (a > b)),
    9: lambda a, b: ~(a <= b),
    10: lambda a, b: ~(a < b),
    11: lambda a, b: ~(a >= b),
    12: lambda a, b: ~(a > b),
    13: np.not_equal,
    14: lambda a, b: (a != a) | (b != b),  # noqa: PLR0124
}


@elementwise("arith.cmpf")
def _compare(_op: Operation, attributes: Attributes) -> Callable[..., Any]:
    predicate = attributes.integer("predicate")
    if predicate not in _PREDICATES:
        raise Unsupported(f"the simulator does not know arith.cmpf with predicate {predicate}")
    return _PREDICATES[predicate]


@elementwise("arith.extf")
def _extend(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    held = format_of(op.result_types[0].element).held
    format_of(op.operand_types[0].element)
    return lambda a: a.astype(held, copy=False)


@elementwise("arith.truncf")
def _truncate(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    element = op.result_types[0].element
    format_of(element)
    return lambda a: rounded(a, element)


@elementwise("tt.fp_to_fp")
def _between_floats(op: Operation, attributes: Attributes) -> Callable[..., Any]:
    if attributes.integer("rounding", 1) != 1:
        raise Unsupported("the simulator does not know tt.fp_to_fp that rounds toward zero")
    format_of(op.operand_types[0].element)
    return _truncate(op, attributes)


@elementwise("arith.sitofp", "arith.uitofp")
def _from_integer(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    element, is_unsigned = op.result_types[0].element, op.name == "arith.uitofp"
    held = format_of(element).held

    def convert(a: Any) -> Any:
        if a.dtype == np.bool_:
            return a.astype(held) if is_unsigned else -a.astype(held)
        values = a.view(f"u{a.dtype.itemsize}") if is_unsigned else a
        if element in {"f32", "f64"}:
            return values.astype(held)
        return rounded(_sticky(values).astype(np.float64), element)

    return convert


def _sticky(values: Any) -> Any:
    """Return integers that float64 holds exactly and that round to a narrow float as the given ones do."""
    if values.dtype.itemsize < 8:
        return values
    limit, low = values.dtype.type(2**53), values & values.dtype.type(0x7FF)
    exact = (values < limit) if values.dtype.kind == "u" else (values < limit) & (values > -limit)
    odd = (values - low) | np.where(low != 0, values.dtype.type(0x800), values.dtype.type(0))
    return np.where(exact, values, odd)


@elementwise("arith.fptosi", "arith.fptoui")
def _to_integer(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    form = format_of(op.result_types[0].element)
    is_signed, bits = op.name == "arith.fptosi", max(form.bits, 16)
    if form.bits == 1:
        raise Unsupported(f"the simulator does not know {op.name} to i1")
    wide = np.dtype(f"{'i' if is_signed else 'u'}{bits // 8}")
    limits = np.iinfo(wide)
    highest_bit = bits == 64 or op.operand_types[0].element == "f64"
    of_nan = np.array(1 << (bits - 1) if highest_bit else 0, dtype=f"u{bits // 8}").astype(wide)

    def convert(a: Any) -> Any:
        """Saturate at the limits of the type (of 16 bits for 8-bit types, whose low byte is then kept), as an H200 does.

        NaN gives 0, but the highest bit alone where the float or the integer has 64 bits.
        """
        values = np.trunc(a.astype(np.float64))
        high, low = values >= float(limits.max), values <= float(limits.min)
        nan = np.isnan(values)
        result = np.where(high | low | nan, 0.0, values).astype(wide)
        result[high], result[low] = limits.max, limits.min
        result[nan] = of_nan
        return result.astype(form.stored).view(form.held)

    return convert

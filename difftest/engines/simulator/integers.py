"""Integer operations: two's complement that wraps; what MLIR leaves undefined gives what an H200 gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.formats import format_of
from difftest.engines.simulator.translation import elementwise
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.engines.simulator.attributes import Attributes
    from difftest.engines.simulator.mlir import Operation

_PLAIN: dict[str, Callable[..., Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "math.absi": np.abs,
}
# On one bit, addition and subtraction are exclusive or; as signed numbers, true is -1.
_ON_BITS: dict[str, Callable[..., Any]] = {
    **_PLAIN,
    "arith.addi": np.bitwise_xor,
    "arith.subi": np.bitwise_xor,
    "arith.muli": np.bitwise_and,
    "arith.maxsi": np.bitwise_and,
    "arith.minsi": np.bitwise_or,
}


@elementwise(*_PLAIN)
def _plain(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    return (_ON_BITS if op.operand_types[0].element == "i1" else _PLAIN)[op.name]


def unsigned(values: Any) -> Any:
    """Return the same bits as unsigned integers."""
    return values if values.dtype == np.bool_ else values.view(f"u{values.dtype.itemsize}")


def _on_unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(a: Any, b: Any) -> Any:
        return function(unsigned(a), unsigned(b)).view(a.dtype)

    return apply


def _quotient_by_zero(a: Any) -> Any:
    """Return all ones; of 64-bit operands below 2**32 only 32 ones, since NVIDIA code divides those as 32-bit numbers."""
    ones = ~a.dtype.type(0)
    if a.dtype.itemsize < 8:
        return ones
    return np.where(unsigned(a) >> np.uint64(32) == 0, a.dtype.type(0xFFFF_FFFF), ones)


def _signed_quotient(a: Any, b: Any) -> Any:
    if b.size == 1 and b.flat[0] > 0 and a.min() >= 0:
        return a // b
    zero = b == 0
    divisor = np.where(zero, b.dtype.type(1), b)
    minus_one = divisor == -1
    safe = np.where(minus_one, b.dtype.type(1), divisor)
    quotient = (a - np.fmod(a, safe)) // safe
    quotient = np.where(minus_one, np.negative(a), quotient)  # MIN / -1 wraps to MIN
    return np.where(zero, _quotient_by_zero(a), quotient)


def _signed_remainder(a: Any, b: Any) -> Any:
    if b.size == 1 and b.flat[0] > 0:
        return np.fmod(a, b)
    harmless = (b == 0) | (b == -1)
    remainder = np.fmod(a, np.where(harmless, b.dtype.type(1), b))
    return np.where(b == 0, a, remainder)


def _unsigned_quotient(a: Any, b: Any) -> Any:
    zero = b == 0
    quotient = a // np.where(zero, b.dtype.type(1), b)
    return np.where(zero, _quotient_by_zero(a), quotient)


def _unsigned_remainder(a: Any, b: Any) -> Any:
    zero = b == 0
    return np.where(zero, a, a % np.where(zero, b.dtype.type(1), b))


def _high_half(a: Any, b: Any) -> Any:
    if a.dtype == np.int32:
        product = unsigned(a).astype(np.uint64) * unsigned(b)
        return (product >> np.uint64(32)).astype(np.uint32).view(np.int32)
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    x, y = a.view(np.uint64), b.view(np.uint64)
    cross = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
    other = (x & low) * (y >> half) + (cross & low)
    return ((x >> half) * (y >> half) + (cross >> half) + (other >> half)).view(np.int64)


_DEFINED: dict[str, Callable[..., Any]] = {
    "arith.divsi": _signed_quotient,
    "arith.remsi": _signed_remainder,
    "arith.divui": _on_unsigned(_unsigned_quotient),
    "arith.remui": _on_unsigned(_unsigned_remainder),
    "arith.maxui": _on_unsigned(np.maximum),
    "arith.minui": _on_unsigned(np.minimum),
    # An amount past the width, also a negative one, shifts everything out in numpy as on an H200.
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": _on_unsigned(np.right_shift),
    "tt.mulhiui": _high_half,
}


@elementwise(*_DEFINED)
def _defined(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    if op.operand_types[0].element == "i1":
        raise Unsupported(f"the simulator does not know {op.name} on i1")
    return _DEFINED[op.name]


_SIGNED = {0: np.equal, 1: np.not_equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}
_UNSIGNED = {6: np.less, 7: np.less_equal, 8: np.greater, 9: np.greater_equal}


@elementwise("arith.cmpi")
def _compare(op: Operation, attributes: Attributes) -> Callable[..., Any]:
    predicate = attributes.integer("predicate")
    if predicate in _UNSIGNED:
        function = _UNSIGNED[predicate]
        return lambda a, b: function(unsigned(a), unsigned(b))
    if op.operand_types[0].element == "i1" and predicate > 1:  # as signed numbers true is -1, so the order is turned round
        turned = _SIGNED[predicate]
        return lambda a, b: turned(b, a)
    return _SIGNED[predicate]


@elementwise("arith.extsi")
def _extend_signed(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    held = format_of(op.result_types[0].element).held
    if op.operand_types[0].element == "i1":
        return lambda a: np.negative(a.astype(held))
    return lambda a: a.astype(held)


@elementwise("arith.extui")
def _extend_unsigned(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    held = format_of(op.result_types[0].element).held
    return lambda a: unsigned(a).astype(held)


@elementwise("arith.trunci")
def _truncate(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    element = op.result_types[0].element
    if element == "i1":
        return lambda a: (a & 1) != 0
    held = format_of(element).held
    return lambda a: a.astype(held)

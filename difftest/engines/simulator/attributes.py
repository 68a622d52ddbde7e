"""Attributes of an operation, decoded; an attribute that nobody decodes is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from difftest.engines.simulator.formats import format_of, from_python, from_stored
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from difftest.engines.simulator.mlir import Operation

# Attributes without a meaning for one program instance on its own: hints to caches and to the scheduler, and claims about values.
_HINTS = {
    "cache", "evict", "cachePolicy", "isVolatile", "tt.divisibility", "tt.contiguity", "tt.constancy", "tt.num_stages", "tt.flatten",
    "tt.disallow_acc_multi_buffer", "tt.warp_specialize", "tt.loop_unroll_factor", "llvm.loop_annotation", "noinline", "allow_reorder",
    "efficient_layout", "sem", "scope", "padding",
}  # fmt: skip
_NEUTRAL = {
    "fastmath": {"#arith.fastmath<none>"},
    "overflowFlags": {"#arith.overflow<none>"},
    "boundaryCheck": {"array<i32>"},
    "nonNeg": {"false"},
    "isExact": {"false"},
    "exact": {"false"},
    "unsignedCmp": {"false"},
}
_TYPED = re.compile(r"(.*) : ([\w]+)$")
_DENSE = re.compile(r"dense<(.*)> : tensor<(?:\d+x)*([\w]+)>$")
_HEXADECIMAL = re.compile(r"0x[0-9A-Fa-f]+$")


class Attributes:
    """The attributes of one operation; `finish` refuses those that no decoder asked for."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._left = dict(operation.attributes)

    def text(self, name: str, default: str | None = None) -> str:
        """Return the attribute as it is written."""
        if name not in self._left:
            if default is None:
                raise Unsupported(f"{self._operation.name} has no attribute {name!r}, which the simulator needs")
            return default
        return self._left.pop(name)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return the attribute, written such as `2 : i32`, as an integer."""
        return int(self.text(name, None if default is None else str(default)).split(" : ")[0])

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean attribute."""
        return self.text(name, "true" if default else "false") in {"true", "unit"}

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the attribute, written such as `array<i32: 1, 0>`, as integers."""
        inner = self.text(name).removeprefix("array<").removesuffix(">").partition(":")[2]
        return tuple(int(item) for item in inner.split(",") if item.strip())

    def finish(self) -> None:
        """Return when every attribute was decoded or has no effect on values.

        Raises:
            Unsupported: for another attribute or another value.

        """
        for name, value in self._left.items():
            if name not in _HINTS and value not in _NEUTRAL.get(name, ()):
                raise Unsupported(f"the simulator does not know the attribute {name} = {value} of {self._operation.name}")


def constant(text: str) -> tuple[NDArray[Any], str]:
    """Return the value of an `arith.constant` attribute as an array of shape (1,), and its element type.

    Raises:
        Unsupported: for a constant that is neither a scalar nor a splat.

    """
    if text in {"true", "false"}:
        return np.array([text == "true"]), "i1"
    match = _DENSE.match(text) or _TYPED.match(text)
    if match is None or match[1].startswith(("[", '"')):
        raise Unsupported(f"the simulator does not know the constant {text[:80]!r}: only scalars and splats")
    return _number(match[1], match[2]), match[2]


def _number(text: str, element: str) -> Any:
    form = format_of(element)
    if text in {"true", "false"}:
        return from_python(text == "true", element)
    if not form.is_float:
        return from_python(int(text, 0), element)
    if _HEXADECIMAL.match(text):
        # Hex digits are the element's bits, never a number: 0xFF800000 is -inf, not 4.28e9.
        return from_stored(np.array([int(text, 16)], dtype=form.stored), element)
    return from_python(float(text), element)

"""A kernel that is ready to run: Triton IR text in, launches out."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator import accesses, combine, control, floats, integers, shapes  # noqa: F401 - they register operations
from difftest.engines.simulator.allocation import Allocation
from difftest.engines.simulator.formats import from_python
from difftest.engines.simulator.functions import Functions
from difftest.engines.simulator.mlir import parse_module
from difftest.engines.simulator.run import Run
from difftest.engines.simulator.values import Pointers
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

# Values of about this many elements stay in the processor's cache.
CHUNK_ELEMENTS = 65_536
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


class Program:
    """The entry function of a module, and what its arguments are."""

    def __init__(self, text: str) -> None:
        self._entry = Functions(parse_module(text)).entry()
        self._types = self._entry.argument_types

    def launch(
        self, grid: tuple[int, int, int], arguments: Sequence[tuple[str, Any]], *, chunk_elements: int, max_loop_rounds: int
    ) -> None:
        """Run every instance of the grid.

        Args:
            grid: program instances along x, y and z.
            arguments: name and value of each argument of the IR function: a tensor for a pointer, a number otherwise.
            chunk_elements: instances are run together until their largest value has about this many elements.
            max_loop_rounds: a loop that runs longer is a failure.

        """
        if len(arguments) != len(self._types):
            raise Unsupported(f"the IR function takes {len(self._types)} arguments, and the launch has {[name for name, _ in arguments]}")
        _keep_large_blocks()
        total, count = grid[0] * grid[1] * grid[2], max(1, chunk_elements // self._entry.largest)
        with np.errstate(all="ignore"):
            allocations, values = self._bound(arguments)
            for first in range(0, total, count):
                run = Run(grid, first, min(count, total - first), allocations, max_loop_rounds=max_loop_rounds)
                self._entry.call(list(values), run)

    def _bound(self, arguments: Sequence[tuple[str, Any]]) -> tuple[tuple[Allocation, ...], list[Any]]:
        allocations: list[Allocation] = []
        values: list[Any] = []
        for (name, value), kind in zip(arguments, self._types, strict=True):
            if not kind.is_pointer:
                values.append(from_python(value, kind.element))
                continue
            values.append(Pointers(len(allocations), np.zeros(1, dtype=np.int64)))
            allocations.append(Allocation(name, _tensor(name, value)))
        return tuple(allocations), values


def _tensor(name: str, value: Any) -> Any:
    tensor = getattr(value, "base", value)  # triton.reinterpret wraps a tensor
    if not hasattr(tensor, "untyped_storage") or tensor.device.type != "cpu":
        raise Unsupported(
            f"`{name}` is {type(value).__name__} on {getattr(tensor, 'device', 'no device')}: the simulator takes CPU tensors"
        )
    return tensor


@cache
def _keep_large_blocks() -> None:
    """Tell glibc to keep large freed blocks: unmapping and faulting them in again costs three times the arithmetic."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_TRIM_THRESHOLD, 0x7FFF_FFFF)

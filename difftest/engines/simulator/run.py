"""The state of a launch while its program instances run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from difftest.engines.simulator.allocation import Allocation

# A loop that is still running after this many rounds is taken as one that never ends.
MAX_LOOP_ROUNDS = 10_000_000


@dataclass
class Run:
    """A chunk of program instances: which they are, where they may read and write, and which of them are active now."""

    grid: tuple[int, int, int]
    first: int
    count: int
    allocations: tuple[Allocation, ...]
    active: NDArray[np.bool_] | None = None  # (count,); None: all
    max_loop_rounds: int = MAX_LOOP_ROUNDS

    def program_ids(self, axis: int) -> NDArray[np.int32]:
        """Return the coordinate of each instance, (count,), or (1,) where it is the same for all."""
        if self.grid[axis] == 1:
            return np.zeros(1, dtype=np.int32)
        below = int(np.prod(self.grid[:axis], dtype=np.int64))
        index = np.arange(self.first, self.first + self.count, dtype=np.int64)
        return (index // below % self.grid[axis]).astype(np.int32)

    def program(self, instance: int) -> tuple[int, int, int]:
        """Return the (x, y, z) of an instance of this chunk."""
        index = self.first + instance
        x, y, _ = self.grid
        return index % x, index // x % y, index // (x * y)

    def first_active(self) -> int:
        """Return the lowest instance that is active."""
        return 0 if self.active is None else int(np.argmax(self.active))

    def under_active(self, mask: Any, rank: int) -> Any:
        """Return a mask of rank + 1 axes narrowed to the active instances."""
        if self.active is None:
            return mask
        active = self.active.reshape(-1, *(1,) * rank)
        return active if mask is None else mask & active


def positions_of(run: Run, bad: NDArray[np.bool_]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the first marked element as (instance, lane, index into the array)."""
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    instance = run.first_active() if bad.shape[0] == 1 else index[0]
    return instance, index[1:], index

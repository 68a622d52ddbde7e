"""Values of a running program: arrays with a leading axis over program instances, and pointers.

An array's leading axis is as long as the number of instances, or 1 where the value is the same for all. Every further axis is as long as
the type says, or 1 where the value is the same along it: a splat or a broadcast costs nothing, and numpy's broadcasting does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Pointers:
    """Addresses as (which allocation, how many elements from its first): `origin` is one number, or an array where allocations mix."""

    origin: int | NDArray[np.int64]
    offset: NDArray[Any]


def mapped(function: Callable[[NDArray[Any]], NDArray[Any]], value: Any) -> Any:
    """Return `function` of an array, or of the parts of pointers."""
    if type(value) is not Pointers:
        return function(value)
    origin = value.origin if isinstance(value.origin, int) else function(value.origin)
    return Pointers(origin, function(value.offset))


def chosen(condition: NDArray[np.bool_], one: Any, other: Any) -> Any:
    """Return `one` where the condition holds and `other` elsewhere; shapes broadcast."""
    if type(one) is not Pointers:
        return np.where(condition, one, other)
    origin = one.origin
    if not (isinstance(origin, int) and isinstance(other.origin, int) and origin == other.origin):
        origin = np.where(condition, origin, other.origin)
    return Pointers(origin, np.where(condition, one.offset, other.offset))


def merged(instances: NDArray[np.bool_] | None, new: Any, old: Any) -> Any:
    """Return `new` for the marked program instances and `old` for the others; None marks all."""
    if instances is None or new is old:
        return new
    rank = (new.offset if type(new) is Pointers else new).ndim
    return chosen(instances.reshape(-1, *(1,) * (rank - 1)), new, old)


def filled_out(value: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array with each axis after the leading one as long as `shape` says (a view where it was 1)."""
    return value if value.shape[1:] == shape else np.broadcast_to(value, (value.shape[0], *shape))


def is_uniform(value: Any) -> bool:
    """Whether a scalar is the same for all instances."""
    return bool(value.shape[0] == 1)

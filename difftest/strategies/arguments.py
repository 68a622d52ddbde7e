"""Checks of the arguments of strategies: a wrong one is an error when the strategy is made, not when it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.errors import InvalidStrategy, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_int(strategy: str, name: str, value: Any, *, low: int | None = None) -> None:
    """Check that an argument is an int, and at least `low`.

    Raises:
        InvalidStrategy: naming the strategy, the argument and its value.

    """
    if type(value) is not int:
        raise InvalidStrategy(f"{strategy}: {name}={value!r} is not an int; give a plain Python int")
    if low is not None and value < low:
        raise InvalidStrategy(f"{strategy}: {name}={value} is below {low}; give {name} >= {low}")


def check_order(strategy: str, low_name: str, low: float, high_name: str, high: float) -> None:
    """Check that two bounds are in order.

    Raises:
        InvalidStrategy: when no value lies between them.

    """
    if low > high:
        empty = f"{low_name}={low!r} is above {high_name}={high!r}"
        raise InvalidStrategy(f"{strategy}: {empty}: nothing to draw; give {low_name} <= {high_name}")


def check_names(strategy: str, what: str, names: Iterable[Any], known: Iterable[str]) -> tuple[str, ...]:
    """Return the names, without repeats, when all are known.

    Raises:
        InvalidStrategy: for no name at all, or an unknown one.

    """
    chosen, allowed = tuple(dict.fromkeys(names)), tuple(known)
    if not chosen:
        raise InvalidStrategy(f"{strategy}: no {what} given: nothing to draw; known: {', '.join(allowed)}")
    for name in chosen:
        if name not in allowed:
            raise InvalidStrategy(f"{strategy}: {name!r} is not a {what}{suggestion(str(name), allowed)}")
    return chosen

"""`Case`: a small JSON-able description of one launch."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Iterator, Mapping
from typing import Any

from difftest.errors import InvalidCase, suggestion

_SCALARS = (str, int, float, bool, type(None))


class Case(Mapping[str, Any]):
    """An immutable, hashable mapping of field names to JSON-able values.

    A case holds sizes, dtypes, layouts, fill regimes and the seed that fills tensors, never tensors: it is what Hypothesis draws and
    shrinks, what a replay file stores, and what a user pastes. Its `repr` is valid Python (`Case(h=4, w=4, seed=0)`). Values are str, int,
    finite float, bool, None, tuples of those, and nested cases; lists become tuples and dicts become cases.

    Raises:
        InvalidCase: for a value of another type, or a float that is not finite (name a fill regime instead).

    """

    __slots__ = ("_fields", "_hash")

    def __init__(self, /, **fields: Any) -> None:
        object.__setattr__(self, "_fields", {name: _frozen(name, value) for name, value in fields.items()})
        object.__setattr__(self, "_hash", None)

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise InvalidCase(f"{name!r} is not a field of {self!r}{suggestion(name, self._fields)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise InvalidCase(f"a Case is immutable: use case.replace({name}={value!r})")

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(self.to_json()))
        return int(self._hash)

    def __repr__(self) -> str:
        return f"Case({', '.join(f'{name}={value!r}' for name, value in self._fields.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_from_fields, (dict(self._fields),))

    def replace(self, /, **changes: Any) -> Case:
        """Return a case with some fields changed or added."""
        return Case(**{**self._fields, **changes})

    def to_json(self) -> str:
        """Return the case as canonical JSON: equal cases give equal text."""
        return json.dumps(_plain(self), sort_keys=True, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Return the case that `to_json` wrote.

        Raises:
            InvalidCase: when the text is not a JSON object of case fields.

        """
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidCase(f"not a case: {text[:60]!r} is not JSON ({error})") from None
        return cls.from_fields(fields)

    @classmethod
    def from_fields(cls, fields: Any) -> Case:
        """Return the case of a decoded JSON object."""
        if not isinstance(fields, dict):
            raise InvalidCase(f"a case is a JSON object of fields, not {type(fields).__name__}")
        return _from_fields(fields)


def _from_fields(fields: Mapping[str, Any]) -> Case:
    return Case(**fields)


def _frozen(name: str, value: Any) -> Any:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise InvalidCase(f"{name!r} cannot name a field of a case: fields are Python identifiers without a leading underscore")
    if isinstance(value, Case) or (isinstance(value, _SCALARS) and type(value) in _SCALARS):
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidCase(f"{name}={value!r}: a case holds finite floats only; name a fill regime instead")
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_frozen(name, item) for item in value)
    if isinstance(value, dict):
        return _from_fields(value)
    raise InvalidCase(f"{name}={value!r}: a case holds JSON-able values, not {type(value).__name__}; tensors are made from the case")


def _plain(value: Any) -> Any:
    if isinstance(value, Case):
        return {name: _plain(item) for name, item in value._fields.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value

"""Classes of launch arguments, and the compile keys they make, in words."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from difftest import triton_adapter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_WIDTHS = {"i8": "8-bit ", "i16": "16-bit ", "i32": "", "i64": "64-bit ", "u8": "unsigned 8-bit ", "u16": "unsigned 16-bit "}
_WIDTHS |= {"u32": "unsigned ", "u64": "unsigned 64-bit "}
_ALIGNMENTS = {
    "D": "aligned to 16 bytes",
    "": "not aligned to 16 bytes",
    "DS": "aligned to 16 bytes, under 2 GB",
    "S": "not aligned to 16 bytes, under 2 GB",
}
NOT_SPECIALIZED = "not specialized"


@dataclass(frozen=True)
class KeyArgument:
    """What one argument contributes to a compile key.

    Attributes:
        name: the parameter.
        kind: Triton's type, such as `i32`, `*fp32`, or `constexpr`.
        specialization: what Triton specialized on: `D` for a multiple of 16, a constant's text, None where nothing.
        declared_constexpr: whether the parameter is a `tl.constexpr`.
        value: the value as text; not part of the key. Tensors have none.
        unpolicied: the class that the argument has where nothing is excluded; not part of the key.

    """

    name: str
    kind: str
    specialization: str | None
    declared_constexpr: bool
    value: str = field(default="", compare=False)
    unpolicied: str = field(default="", compare=False)

    @property
    def in_words(self) -> str:
        """The class in words, such as "multiple of 16"."""
        return class_in_words(self.kind, self.specialization, declared_constexpr=self.declared_constexpr)


@dataclass(frozen=True)
class CompileKey:
    """A compile key with named arguments: equal keys share one compiled kernel of the in-process cache.

    Options stand in the order in which they were given, because Triton compiles again for another order.
    """

    kernel: str
    arguments: tuple[KeyArgument, ...]
    options: tuple[tuple[str, str], ...]
    target: str
    text: str = field(compare=False, repr=False, default="")  # Triton's own key

    def argument(self, name: str) -> KeyArgument | None:
        """Return the argument of that name, or None."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def classes(self) -> frozenset[str]:
        """Return "`name` class" for every argument that is not a constexpr: the class without any policy, which generation must reach."""
        return frozenset(f"`{one.name}` {one.unpolicied or one.in_words}" for one in self.arguments if not one.declared_constexpr)

    def in_words(self) -> str:
        """Return every argument with its value and class."""
        return ", ".join(f"`{one.name}`: {_valued(one)}" for one in self.arguments)


def class_in_words(kind: Any, specialization: Any, *, declared_constexpr: bool = False) -> str:
    """Return what Triton made of an argument, in words."""
    if declared_constexpr:
        return f"constexpr {specialization}"
    if isinstance(kind, tuple):
        made = specialization if isinstance(specialization, tuple) else (specialization,) * len(kind)
        return f"({', '.join(class_in_words(*member) for member in zip(kind, made, strict=True))})"
    if kind == "constexpr":
        return str(specialization)
    return _typed_in_words(kind, specialization)


def _typed_in_words(kind: str, specialization: Any) -> str:
    if kind.startswith("*"):
        return _ALIGNMENTS.get(specialization, NOT_SPECIALIZED) if specialization is not None else NOT_SPECIALIZED
    if kind in _WIDTHS:
        return _WIDTHS[kind] + {"D": "multiple of 16", "": "other"}.get(specialization, NOT_SPECIALIZED)
    if kind == "u1":
        return "bool"
    return "float" if kind.startswith(("fp", "bf")) else str(kind)


def scalar_class(value: Any, target: Any = None) -> str:
    """Return the class that Triton's binder gives a scalar where nothing is excluded, such as "1", "multiple of 16" or "64-bit other".

    Raises:
        TypeError: for a numpy integer or bool, which Triton does not take.
        OverflowError: for 2**64 and more.

    """
    return class_in_words(*triton_adapter.specialize(value, target))


def classes_of(values: Iterable[Any], target: Any = None) -> dict[str, Any]:
    """Return each class among the values with its first value."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(scalar_class(value, target), value)
    return found


def compile_key(jit: Any, args: Sequence[Any], kwargs: Mapping[str, Any], target: Any = None) -> CompileKey:
    """Return the key that a launch has under the flags now in force, from Triton's binder."""
    return key_of(jit, triton_adapter.bind(jit, args, kwargs, target))


def key_of(jit: Any, bound: triton_adapter.Bound) -> CompileKey:
    """Return the key of bound arguments."""
    rows = zip(triton_adapter.parameters(jit), bound.specialization, bound.arguments.values(), strict=False)
    arguments = tuple(_argument(parameter, made, value, bound.target) for parameter, made, value in rows)
    options = tuple((name, repr(value)) for name, value in bound.options.items())
    return CompileKey(triton_adapter.kernel_name(jit), arguments, options, triton_adapter.target_text(bound.target), bound.key)


def cached_keys(jit: Any) -> tuple[CompileKey, ...]:
    """Return the keys that a jit function has compiled for the active device, oldest first, without the values of arguments."""
    target = triton_adapter.active_target()
    if target is None:
        return ()
    name, text, parameters = triton_adapter.kernel_name(jit), triton_adapter.target_text(target), triton_adapter.parameters(jit)
    return tuple(
        CompileKey(name, tuple(map(_remembered, parameters, made)), _options_of(options), text, key)
        for made, options, key in triton_adapter.cached_bindings(jit)
    )


def explain(before: CompileKey, after: CompileKey) -> tuple[str, ...]:
    """Return a sentence for each part that differs, such as "`num_tokens`: 17 (other) -> 32 (multiple of 16)"."""
    words = [
        f"`{old.name}`: {_valued(old)} -> {_valued(new)}" for old, new in zip(before.arguments, after.arguments, strict=False) if old != new
    ]
    old_options, new_options = dict(before.options), dict(after.options)
    words += [
        f"option {name}: {old_options.get(name, 'absent')} -> {new_options.get(name, 'absent')}"
        for name in dict.fromkeys([*old_options, *new_options])
        if old_options.get(name) != new_options.get(name)
    ]
    if old_options == new_options and before.options != after.options:
        words.append(f"options in another order: {', '.join(old_options)} -> {', '.join(new_options)}")
    if before.target != after.target:
        words.append(f"target: {before.target} -> {after.target}")
    return tuple(words)


def distance(one: CompileKey, other: CompileKey) -> int:
    """Return the number of parts in which two keys differ."""
    return len(explain(one, other))


def _argument(parameter: triton_adapter.Parameter, made: tuple[Any, Any], value: Any, target: Any) -> KeyArgument:
    kind, specialization = made
    text = repr(specialization) if kind == "constexpr" else specialization if specialization is None else str(specialization)
    # A scalar's value helps a person; a tensor must not live on in a key.
    shown = repr(value) if isinstance(value, (bool, int, float, str, type(None))) else ""
    free = "" if parameter.is_constexpr else class_in_words(*triton_adapter.specialize(value, target))
    text = class_in_words(kind, specialization) if isinstance(kind, tuple) else text
    return KeyArgument(parameter.name, str(kind), text, parameter.is_constexpr, shown, free)


def _remembered(parameter: triton_adapter.Parameter, made: tuple[Any, Any]) -> KeyArgument:
    """Return an argument of a key in Triton's cache, whose value is not known."""
    return replace(_argument(parameter, made, None, None), value="", unpolicied="")


def _options_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return the options whose dict was printed as `text`; as one option where a value does not read back."""
    try:
        return tuple((name, repr(value)) for name, value in ast.literal_eval(text).items())
    except (ValueError, SyntaxError):
        return (("options", text),)


def _valued(argument: KeyArgument) -> str:
    """Return "17 (other)", or "*fp32 (aligned to 16 bytes)" for a pointer."""
    if argument.declared_constexpr:
        return f"{argument.specialization} (constexpr)"
    words = "equal to 1" if argument.in_words == "1" else argument.in_words
    shown = argument.value or argument.kind.removeprefix("constexpr")
    return f"{shown} ({words})" if shown and shown != words else words

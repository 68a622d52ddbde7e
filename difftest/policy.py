"""Specialization policies: which arguments Triton does not specialize.

A policy is applied to the `JITFunction`s of a spec in place, with an empty in-process cache, and undone: launch functions, also those of
other packages, run unmodified. `production` is the kernel as decorated, untouched.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from difftest.errors import InvalidPolicy, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from difftest.triton_adapter import Parameter

_MOST_POWERSET_NAMES = 8


@dataclass(frozen=True)
class AppliedPolicy:
    """A policy in force, with what a user should know of it."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SpecializationPolicy:
    """Which arguments of a kernel are not specialized.

    Attributes:
        name: the word of reports and of `--difftest-policy`.
        do_not_specialize: parameter names, for kind "list".
        do_not_specialize_on_alignment: parameter names, for kind "list".
        kind: "list", or the rule of a built-in policy.

    """

    name: str
    do_not_specialize: tuple[str, ...] = ()
    do_not_specialize_on_alignment: tuple[str, ...] = ()
    kind: str = "list"

    def __post_init__(self) -> None:
        """Check what can be checked without a kernel."""
        for role in ("do_not_specialize", "do_not_specialize_on_alignment"):
            entries = getattr(self, role)
            if not isinstance(entries, tuple) or not all(isinstance(entry, str) for entry in entries):
                raise InvalidPolicy(f"policy {self.name!r}: {role}={entries!r} is not a tuple of parameter names; write ('num_tokens',)")

    @property
    def is_production(self) -> bool:
        """Whether this is the kernel as decorated."""
        return self.kind == "production"

    @contextlib.contextmanager
    def apply(self, kernels: Sequence[Any], samples: Mapping[Any, Mapping[str, Any]]) -> Iterator[AppliedPolicy]:
        """Put the policy in force for the kernels, and undo it after.

        Args:
            kernels: jit functions, also under `triton.autotune` or `triton.heuristics`.
            samples: jit function to the bound arguments of one of its launches: which parameters are scalars is seen there.

        Raises:
            InvalidPolicy: when a listed name is no parameter of any of the kernels, or is a constexpr.

        """
        from difftest import triton_adapter  # noqa: PLC0415 - loads triton

        jits = list(dict.fromkeys(triton_adapter.jit_function(kernel) for kernel in (*kernels, *samples)))
        self._check_names({jit: triton_adapter.parameters(jit) for jit in jits})
        notes: list[str] = []
        with contextlib.ExitStack() as stack:
            for jit in jits:
                if self.is_production:
                    stack.enter_context(triton_adapter.fresh_caches(jit))
                    continue
                names, alignment = self._lists(triton_adapter.parameters(jit), samples.get(jit, {}))
                stack.enter_context(triton_adapter.set_specialization(jit, frozenset(names), frozenset(alignment)))
                notes += self._notes(triton_adapter.kernel_name(jit), (*names, *alignment), samples.get(jit))
            yield AppliedPolicy(tuple(notes))

    def _lists(self, parameters: Sequence[Parameter], sample: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the names not specialized, and not specialized on alignment, for one kernel."""
        free = [one for one in parameters if not one.is_constexpr]
        as_decorated = [one.name for one in free if one.do_not_specialize], [one.name for one in free if one.do_not_specialize_on_alignment]
        if self.kind == "specialize_all":
            return [], []
        if self.kind == "none":
            return [one.name for one in free if isinstance(sample.get(one.name), (bool, int, float))], as_decorated[1]
        if self.kind == "integers":
            return [one.name for one in free if _is_int(sample.get(one.name))], as_decorated[1]
        if self.kind == "no_alignment":
            return as_decorated[0], [*as_decorated[1], *(one.name for one in free if hasattr(sample.get(one.name), "data_ptr"))]
        known = {one.name for one in free}
        return [name for name in self.do_not_specialize if name in known], [
            name for name in self.do_not_specialize_on_alignment if name in known
        ]

    def _check_names(self, parameters: Mapping[Any, Sequence[Parameter]]) -> None:
        everything = [one for of_kernel in parameters.values() for one in of_kernel]
        names = " or ".join(f"{jit.fn.__name__}({', '.join(one.name for one in of_kernel)})" for jit, of_kernel in parameters.items())
        for name in (*self.do_not_specialize, *self.do_not_specialize_on_alignment):
            matching = [one for one in everything if one.name == name]
            free = {one.name for one in everything if not one.is_constexpr}
            if not matching:
                raise InvalidPolicy(f"policy {self.name!r}: {name!r} is not a parameter of {names}{suggestion(name, free)}")
            if all(one.is_constexpr for one in matching):
                raise InvalidPolicy(
                    f"policy {self.name!r}: {name!r} is a constexpr of {names}: its value is always part of the key; take it off the list"
                )


    def _notes(self, kernel: str, names: Sequence[str], sample: Mapping[str, Any] | None) -> list[str]:
        """Return what a reader must know: arguments that nothing could be done about, and a kernel whose arguments nobody saw."""
        if sample is None:
            unseen = f"{kernel} was not launched by the sample: which of its arguments are scalars is not known, and all are specialized"
            return [unseen] if self.kind in ("none", "integers", "no_alignment") else []
        return [f"listing `{name}` has no effect: {why}" for name in dict.fromkeys(names) if (why := without_effect(sample, name))]


PRODUCTION = SpecializationPolicy("production", kind="production")
SPECIALIZE_ALL = SpecializationPolicy("specialize_all", kind="specialize_all")
NONE = SpecializationPolicy("none", kind="none")
INTEGERS = SpecializationPolicy("integers", kind="integers")
NO_ALIGNMENT = SpecializationPolicy("no_alignment", kind="no_alignment")


def builtin_policies() -> tuple[SpecializationPolicy, ...]:
    """Return the policies that every kernel is judged under."""
    return (PRODUCTION, SPECIALIZE_ALL, NONE, INTEGERS, NO_ALIGNMENT)


def powerset(samples: Mapping[Any, Mapping[str, Any]]) -> list[SpecializationPolicy]:
    """Return a policy for every subset of the integer arguments in the samples.

    Floats and bools are left out: Triton never specializes on their value.

    Raises:
        InvalidPolicy: when there are more subsets than anybody runs.

    """
    bound = [(name, value) for sample in samples.values() for name, value in sample.items()]
    names = list(dict.fromkeys(name for name, value in bound if _is_runtime_int(samples, name, value)))
    if len(names) > _MOST_POWERSET_NAMES:
        raise InvalidPolicy(
            f"the powerset of {len(names)} integer arguments ({', '.join(names)}) has {2 ** len(names)} policies; at most "
            f"{_MOST_POWERSET_NAMES} are taken: list the sets that matter in the spec's policies="
        )
    subsets = itertools.chain.from_iterable(itertools.combinations(names, size) for size in range(len(names) + 1))
    return [SpecializationPolicy(f"powerset:{'+'.join(subset) or 'empty'}", subset) for subset in subsets]


def _is_runtime_int(samples: Mapping[Any, Mapping[str, Any]], name: str, value: Any) -> bool:
    from difftest import triton_adapter  # noqa: PLC0415

    constexprs = {one.name for jit in samples for one in triton_adapter.parameters(jit) if one.is_constexpr}
    return _is_int(value) and name not in constexprs


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def without_effect(sample: Mapping[str, Any], name: str) -> str:
    """Return why excluding an argument from specialization changes nothing, or the empty string where it does change something."""
    value = sample.get(name, 0)
    if isinstance(value, tuple):
        return "it is a tuple, whose members Triton specializes all the same"
    words = {float: "a float", bool: "a bool", type(None): "None"}
    return f"it is {words[type(value)]}, which Triton treats alike under every policy" if type(value) in words else ""

"""The compile contract: what may cause a compile of a kernel, and what may not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from difftest.errors import InvalidContract, suggestion
from difftest.specialization import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from difftest.case import Case
    from difftest.specialization import CompileKey
    from difftest.triton_adapter import Parameter


@dataclass(frozen=True)
class Contract:
    """What production promises about compiles.

    Attributes:
        do_not_specialize: parameters whose class may never cause a compile; compared with the decorator's list.
        do_not_specialize_on_alignment: pointers whose alignment may never cause one; compared likewise.
        max_variants: most keys among launches with equal constexprs, options, dtypes and pointer alignments; None for no limit.
        vary: contracted parameter to a function from a case to cases that move this argument through every class of its domain, all else
            (constexprs and options too) equal.

    """

    do_not_specialize: tuple[str, ...] = ()
    do_not_specialize_on_alignment: tuple[str, ...] = ()
    max_variants: int | None = None
    vary: Mapping[str, Callable[[Case], Iterable[Case]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what can be checked without the kernel."""
        for name in ("do_not_specialize", "do_not_specialize_on_alignment"):
            entries = getattr(self, name)
            if not isinstance(entries, tuple) or not all(isinstance(entry, str) for entry in entries):
                raise InvalidContract(f"{name}={entries!r} is not a tuple of parameter names; write ('num_tokens',)")
        if self.max_variants is not None and self.max_variants < 1:
            raise InvalidContract(f"max_variants={self.max_variants}: expected at least 1, or None for no limit")
        contracted = (*self.do_not_specialize, *self.do_not_specialize_on_alignment)
        for name, move in self.vary.items():
            if not callable(move):
                raise InvalidContract(f"vary[{name!r}]={move!r} is not a function from a case to cases")
            if name not in contracted:
                raise InvalidContract(f"vary names {name!r}, which the contract lets cause compiles{suggestion(name, contracted)}")


@dataclass(frozen=True)
class VariationResult:
    """What constructed pairs of one argument showed: why keys moved, and whether they could have."""

    problems: tuple[str, ...]
    could_fail: bool


def check_decorator(contract: Contract, kernels: Sequence[Any]) -> tuple[str, ...]:
    """Return each difference between the contract and the decorators of the kernels, in words.

    The kernels are read as decorated: no policy may be applied.

    Raises:
        InvalidContract: when the contract names what no kernel has, or a constexpr.

    """
    from difftest import triton_adapter  # noqa: PLC0415 - loads triton

    jits = [triton_adapter.jit_function(kernel) for kernel in kernels]
    for role in ("do_not_specialize", "do_not_specialize_on_alignment"):
        for name in getattr(contract, role):
            _check_name(name, jits)
    return tuple(problem for jit in jits for problem in _differences(contract, jit))


def check_variation(argument: str, keys: Sequence[tuple[Case, CompileKey]]) -> VariationResult:
    """Return why the keys of constructed cases differ, if they do, and whether the argument met two classes at all."""
    if not keys:
        return VariationResult((), could_fail=False)
    first = keys[0][1]
    classes = {one.unpolicied for _, key in keys if (one := key.argument(argument)) is not None}
    problems = dict.fromkeys("; ".join(explain(first, key)) for _, key in keys[1:] if key != first)
    return VariationResult(tuple(problems), could_fail=len(classes) > 1)


def check_variants(contract: Contract, keys: Sequence[CompileKey]) -> tuple[str, ...]:
    """Return a sentence for each group of comparable keys that holds more than `max_variants`."""
    if contract.max_variants is None:
        return ()
    return tuple(
        f"{group[0].kernel} has {len(group)} keys where constexprs, options, dtypes and alignments are equal, allowed "
        f"{contract.max_variants}: {'; '.join(explain(group[0], group[-1]))}"
        for group in groups_of(keys)
        if len(group) > contract.max_variants
    )


def groups_of(keys: Iterable[CompileKey]) -> list[list[CompileKey]]:
    """Return the distinct keys in groups of equal kernel, constexprs, options, dtypes and pointer alignments."""
    groups: dict[Any, list[CompileKey]] = {}
    for key in dict.fromkeys(keys):
        fixed = tuple(one for one in key.arguments if one.declared_constexpr or one.kind.startswith("*") or one.unpolicied == "None")
        groups.setdefault((key.kernel, key.target, key.options, fixed), []).append(key)
    return list(groups.values())


def _check_name(name: str, jits: Sequence[Any]) -> None:
    from difftest import triton_adapter  # noqa: PLC0415

    parameters = [one for jit in jits for one in triton_adapter.parameters(jit)]
    free = [one.name for one in parameters if not one.is_constexpr]
    if name in free:
        return
    if name in {one.name for one in parameters}:
        raise InvalidContract(f"{name!r} is a constexpr: its value is always part of the key; take it off the contract")
    kernels = [f"{triton_adapter.kernel_name(jit)}({', '.join(one.name for one in triton_adapter.parameters(jit))})" for jit in jits]
    raise InvalidContract(f"{name!r} is not a parameter of {' or '.join(kernels)}{suggestion(name, free)}")


def _differences(contract: Contract, jit: Any) -> Iterable[str]:
    from difftest import triton_adapter  # noqa: PLC0415

    parameters, name = triton_adapter.parameters(jit), triton_adapter.kernel_name(jit)
    free = [one for one in parameters if not one.is_constexpr]
    for role, raw in zip(("do_not_specialize", "do_not_specialize_on_alignment"), triton_adapter.listed(jit), strict=True):
        declared = set(getattr(contract, role))
        for one in free:
            if one.name in declared and not getattr(one, role):
                yield f"{name}: the contract says {role} {one.name!r}, and the decorator does not list it: its class causes compiles"
            elif one.name not in declared and getattr(one, role):
                yield f"{name}: the decorator lists {one.name!r} in {role}, and the contract does not: list it in both or in neither"
        yield from (f"{name}: the decorator lists {entry!r} in {role}, {why}" for entry in raw if (why := _meaningless(entry, parameters)))


def _meaningless(entry: str | int, parameters: Sequence[Parameter]) -> str:
    """Return why an entry of a decorator's list, which Triton takes without a word, does nothing; empty where it does something."""
    names = [one.name for one in parameters]
    position = names.index(entry) if entry in names else entry
    if isinstance(position, int) and position in range(len(names)):
        return "which is a constexpr: its value is part of the key all the same" if parameters[position].is_constexpr else ""
    return f"which is no parameter: Triton ignores it{suggestion(str(entry), names)}"

"""The contract as a stage of a production cell: the decorator's lists, and constructed pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest import errors
from difftest.contract import check_decorator, check_variation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from difftest.case import Case
    from difftest.cell import Cell
    from difftest.runner import CellRunner
    from difftest.specialization import CompileKey


def check_promise(cell: Cell) -> None:
    """Compare the lists of the kernel's decorator with those that the contract declares.

    Raises:
        ContractBreach: with each difference in words.
        InvalidContract: when the contract names what the kernel does not have.

    """
    problems = check_decorator(cell.spec.contract, cell.spec.kernels)
    if problems:
        raise errors.ContractBreach(f"{cell}: " + "; ".join(problems))


def check_pairs(runner: CellRunner, case: Case) -> None:
    """Move each contracted argument of a case through every class of its domain, all else equal: the compile key must not move.

    Raises:
        ContractBreach: when a key moved, with the argument and its classes before and after.

    """
    cell = runner.cell
    for argument, vary in cell.spec.contract.vary.items():
        results = [check_variation(argument, keys) for keys in _keys_by_kernel(runner, vary(case)).values()]
        runner.tally.add_variation(argument, could_fail=any(result.could_fail for result in results))
        if words := "; ".join(problem for result in results for problem in result.problems):
            raise errors.ContractBreach(f"{cell}: `{argument}` may not cause a compile, and it does: {words}\ncase: {case!r}")


def _keys_by_kernel(runner: CellRunner, cases: Iterable[Case]) -> dict[Any, list[tuple[Case, CompileKey]]]:
    """Return, for each kernel, the key of its first launch in each case, from Triton's binder, running no kernel."""
    keys: dict[Any, list[tuple[Case, CompileKey]]] = {}
    for case in cases:
        first: dict[Any, CompileKey] = {}
        for record in runner.recorded(case):
            first.setdefault(record.kernel, record.key)
        for kernel, key in first.items():
            keys.setdefault(kernel, []).append((case, key))
    return keys

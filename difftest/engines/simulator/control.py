"""Structured control flow: instances that go another way, or leave a loop earlier, are masked out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.formats import format_of
from difftest.engines.simulator.translation import operation, run_steps
from difftest.engines.simulator.values import is_uniform, merged
from difftest.errors import LaunchFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.engines.simulator.attributes import Attributes
    from difftest.engines.simulator.mlir import Block, Operation
    from difftest.engines.simulator.run import Run
    from difftest.engines.simulator.translation import Frame, Step, Translator


class Body:
    """A region of one block: arguments in, the operands of its terminator out."""

    def __init__(self, block: Block, translator: Translator) -> None:
        self._arguments = translator.defined(block.arguments)
        self._steps = translator.block(block)
        self._results = translator.slots(block.operations[-1].operands)

    def __call__(self, frame: Frame, run: Run, arguments: list[Any]) -> list[Any]:
        """Run the block on `arguments` and return what it yields."""
        for slot, value in zip(self._arguments, arguments, strict=True):
            frame[slot] = value
        run_steps(self._steps, frame, run)
        return [frame[slot] for slot in self._results]


def _put(frame: Frame, slots: tuple[int, ...], values: list[Any]) -> None:
    for slot, value in zip(slots, values, strict=True):
        frame[slot] = value


def _both(mask: Any, condition: Any) -> Any:
    return condition if mask is None else mask & condition


@operation("scf.if")
def _if(op: Operation, _attributes: Attributes, translator: Translator) -> Step:
    (condition,) = translator.slots(op.operands)
    then, otherwise = (Body(region[0], translator) if region else None for region in op.regions)
    results = translator.defined(op.results)

    def step(frame: Frame, run: Run) -> None:
        taken = frame[condition]
        if is_uniform(taken):
            branch = then if taken[0] else otherwise
            _put(frame, results, branch(frame, run, []) if branch else [])
            return
        _put(frame, results, _each_branch(frame, run, taken, then, otherwise))

    return step


def _each_branch(frame: Frame, run: Run, taken: Any, then: Body | None, otherwise: Body | None) -> list[Any]:
    before, values = run.active, None
    try:
        for branch, condition in ((then, taken), (otherwise, ~taken)):
            run.active = _both(before, condition)
            if branch is None or not run.active.any():
                continue
            new = branch(frame, run, [])
            values = new if values is None else [merged(run.active, *pair) for pair in zip(new, values, strict=True)]
    finally:
        run.active = before
    return values or []


@operation("scf.for")
def _for(op: Operation, _attributes: Attributes, translator: Translator) -> Step:
    low, high, step_slot, *starts = translator.slots(op.operands)
    loop = _For(Body(op.regions[0][0], translator), translator.where(op), format_of(op.operand_types[0].element).held)
    results = translator.defined(op.results)

    def step(frame: Frame, run: Run) -> None:
        bounds = (frame[low], frame[high], frame[step_slot])
        go = loop.together if all(is_uniform(bound) for bound in bounds) else loop.each
        _put(frame, results, go(frame, run, bounds, [frame[slot] for slot in starts]))

    return step


@dataclass(frozen=True)
class _For:
    """A counted loop; `bounds` are its first index, its end and its step."""

    body: Body
    where: Callable[[], str]
    held: np.dtype[Any]

    def together(self, frame: Frame, run: Run, bounds: tuple[Any, Any, Any], values: list[Any]) -> list[Any]:
        """Run the loop with bounds that are the same for all instances."""
        rounds = range(*(int(bound[0]) for bound in bounds))
        _refuse_endless(len(rounds), run, self.where)
        for index in rounds:
            values = self.body(frame, run, [np.array([index], dtype=self.held), *values])
        return values

    def each(self, frame: Frame, run: Run, bounds: tuple[Any, Any, Any], values: list[Any]) -> list[Any]:
        """Run the loop until the last instance has left it."""
        index, high, step = bounds
        before, rounds = run.active, 0
        live = _both(before, index < high)
        try:
            while live.any():
                rounds += 1
                _refuse_endless(rounds, run, self.where)
                run.active = live
                new = self.body(frame, run, [index, *values])
                values = [merged(live, *pair) for pair in zip(new, values, strict=True)]
                following = index + step
                live = live & (following < high) & (following > index)  # an index that wraps has passed every bound
                index = following
        finally:
            run.active = before
        return values


@operation("scf.while")
def _while(op: Operation, _attributes: Attributes, translator: Translator) -> Step:
    starts = translator.slots(op.operands)
    head, body = (Body(region[0], translator) for region in op.regions)
    where, results = translator.where(op), translator.defined(op.results)

    def step(frame: Frame, run: Run) -> None:
        before = run.active
        try:
            _put(frame, results, _while_any(frame, run, (head, body), [frame[slot] for slot in starts], where))
        finally:
            run.active = before

    return step


def _while_any(frame: Frame, run: Run, bodies: tuple[Body, Body], values: list[Any], where: Callable[[], str]) -> list[Any]:
    head, body = bodies
    results: list[Any] | None = None
    rounds = 0
    while True:
        rounds += 1
        _refuse_endless(rounds, run, where)
        condition, *forwarded = head(frame, run, values)
        results = forwarded if results is None else [merged(run.active, *pair) for pair in zip(forwarded, results, strict=True)]
        if is_uniform(condition):
            if not condition[0]:
                return results
        else:
            run.active = _both(run.active, condition)
            if not run.active.any():
                return results
        values = body(frame, run, forwarded)  # what an instance carries on that has left is never read: its results are kept above


def _refuse_endless(rounds: int, run: Run, where: Callable[[], str]) -> None:
    if rounds > run.max_loop_rounds:
        raise LaunchFailure(
            f"a loop still ran after {run.max_loop_rounds} rounds, program {run.program(run.first_active())}, at {where()}; "
            "raise max_loop_rounds of the simulator if it does end"
        )


@operation("tt.call")
def _call(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    function = translator.function(attributes.text("callee").lstrip("@").strip('"'))
    operands, results = translator.slots(op.operands), translator.defined(op.results)

    def step(frame: Frame, run: Run) -> None:
        _put(frame, results, function.call([frame[slot] for slot in operands], run))

    return step

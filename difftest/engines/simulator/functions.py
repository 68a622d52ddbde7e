"""Functions of a module, with early returns: blocks run in topological order, each under the instances that reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.translation import Translator, names_read, run_steps
from difftest.engines.simulator.values import is_uniform, merged
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from difftest.engines.simulator.mlir import Block, Module, Operation, Type
    from difftest.engines.simulator.run import Run
    from difftest.engines.simulator.translation import Frame, Step


@dataclass(frozen=True)
class _Translated:
    """A block as steps; its terminator sends values on to successors, or returns them."""

    label: str
    arguments: tuple[int, ...]
    steps: list[Step]
    condition: int | None
    successors: tuple[tuple[str, tuple[int, ...]], ...]
    returned: tuple[int, ...]


@dataclass
class Function:
    """One function, ready to run."""

    argument_types: tuple[Type, ...]
    argument_names: tuple[str, ...]
    blocks: list[_Translated]
    slot_count: int
    largest: int

    def call(self, arguments: list[Any], run: Run) -> list[Any]:
        """Run the active instances through the function and return its results."""
        frame: Frame = [None] * self.slot_count
        if len(self.blocks) == 1:
            only = self.blocks[0]
            _bind(frame, only.arguments, arguments)
            run_steps(only.steps, frame, run)
            return [frame[slot] for slot in only.returned]
        before = run.active
        try:
            return self._through_blocks(frame, arguments, run)
        finally:
            run.active = before

    def _through_blocks(self, frame: Frame, arguments: list[Any], run: Run) -> list[Any]:
        arrivals: dict[str, tuple[Any, list[Any]]] = {self.blocks[0].label: (run.active, arguments)}
        results: list[Any] | None = None
        for block in self.blocks:
            if block.label not in arrivals:
                continue
            run.active, values = arrivals[block.label]
            _bind(frame, block.arguments, values)
            run_steps(block.steps, frame, run)
            if block.successors:
                _send_on(block, frame, run, arrivals)
            else:
                returned = [frame[slot] for slot in block.returned]
                results = returned if results is None else [merged(run.active, *pair) for pair in zip(returned, results, strict=True)]
        return results or []


def _bind(frame: Frame, slots: tuple[int, ...], values: list[Any]) -> None:
    for slot, value in zip(slots, values, strict=True):
        frame[slot] = value


def _send_on(block: _Translated, frame: Frame, run: Run, arrivals: dict[str, tuple[Any, list[Any]]]) -> None:
    if block.condition is None:
        _arrive(arrivals, *block.successors[0], frame, run.active)
        return
    condition = frame[block.condition]
    if is_uniform(condition):
        _arrive(arrivals, *block.successors[0 if condition[0] else 1], frame, run.active)
        return
    for successor, taken in zip(block.successors, (condition, ~condition), strict=True):
        instances = taken if run.active is None else taken & run.active
        if instances.any():
            _arrive(arrivals, *successor, frame, instances)


def _arrive(arrivals: dict[str, tuple[Any, list[Any]]], label: str, slots: tuple[int, ...], frame: Frame, instances: Any) -> None:
    values = [frame[slot] for slot in slots]
    if label in arrivals:
        earlier, old = arrivals[label]
        values = [merged(instances, *pair) for pair in zip(values, old, strict=True)]
        instances = None if instances is None or earlier is None else instances | earlier
    arrivals[label] = (instances, values)


class Functions:
    """The functions of a module, translated when they are first called."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._ready: dict[str, Function] = {}

    def entry(self) -> Function:
        """Return the kernel: the public function."""
        public = [name for name, op in self._module.functions.items() if "public" in op.attributes.get("sym_visibility", '"public"')]
        return self.named(public[0])

    def named(self, name: str) -> Function:
        """Return the function of that symbol."""
        if name not in self._ready:
            self._ready[name] = self._translate(self._module.functions[name])
        return self._ready[name]

    def _translate(self, op: Operation) -> Function:
        translator = Translator(self._module, self.named)
        blocks = _in_topological_order(op.regions[0])
        shared = _names_across_blocks(blocks)
        first = blocks[0]
        translated = [_translate_block(block, translator, shared) for block in blocks]
        return Function(first.argument_types, first.arguments, translated, translator.slot_count, translator.largest)


def _translate_block(block: Block, translator: Translator, shared: frozenset[str]) -> _Translated:
    arguments = translator.defined(block.arguments)
    terminator = block.operations[-1]
    steps = translator.block(block, keep=shared)
    operands = translator.slots(terminator.operands)
    if terminator.name == "tt.return":
        return _Translated(block.label, arguments, steps, None, (), operands)
    labels = [label for label, _ in terminator.successors]
    if terminator.name == "cf.br":
        return _Translated(block.label, arguments, steps, None, ((labels[0], operands),), ())
    if terminator.name != "cf.cond_br":
        raise Unsupported(f"the simulator does not know the terminator {terminator.name}, at {translator.where(terminator)()}")
    count = int(np.fromstring(terminator.attributes["operandSegmentSizes"].partition(":")[2].rstrip(">"), sep=",", dtype=np.int64)[1])
    taken, other = operands[1 : 1 + count], operands[1 + count :]
    return _Translated(block.label, arguments, steps, operands[0], ((labels[0], taken), (labels[1], other)), ())


def _in_topological_order(blocks: list[Block]) -> list[Block]:
    """Return the blocks so that each stands after all that branch to it (printed order is not that)."""
    by_label = {block.label: block for block in blocks}
    order: list[Block] = []
    seen: set[str] = set()

    def visit(block: Block) -> None:
        seen.add(block.label)
        for label, _ in block.operations[-1].successors:
            if label not in seen:
                visit(by_label[label])
        order.append(block)

    visit(blocks[0])
    return order[::-1]


def _names_across_blocks(blocks: list[Block]) -> frozenset[str]:
    """Return the names that another block than their own reads."""
    home = {name: block.label for block in blocks for op in block.operations for name in op.results}
    return frozenset(
        name for block in blocks for op in block.operations for name in names_read(op) if home.get(name, block.label) != block.label
    )

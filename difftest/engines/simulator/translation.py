"""Operations to Python steps: each function of a module is translated once, and run for every launch of its key.

A step is a closure `step(frame, run)`: it reads and writes slots of the frame, a list with one slot for each SSA value. What an operation
does is registered by name (`operation`, `elementwise`); a name that nobody registered is refused with its line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from difftest.engines.simulator.attributes import Attributes
from difftest.engines.simulator.source import Locations
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from difftest.engines.simulator.functions import Function
    from difftest.engines.simulator.mlir import Block, Module, Operation
    from difftest.engines.simulator.run import Run

Frame = list[Any]
Step = Callable[[Frame, "Run"], None]
Builder = Callable[["Operation", Attributes, "Translator"], Step]
ElementwiseFactory = Callable[["Operation", Attributes], Callable[..., Any]]

BUILDERS: dict[str, Builder] = {}
ELEMENTWISE: set[str] = set()
TERMINATORS = {"scf.yield", "scf.condition", "tt.return", "cf.br", "cf.cond_br", "tt.reduce.return", "tt.scan.return"}


def operation(*names: str) -> Callable[[Builder], Builder]:
    """Register the function that builds the step of the named operations."""

    def register(builder: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(names, builder))
        return builder

    return register


def elementwise(*names: str) -> Callable[[ElementwiseFactory], ElementwiseFactory]:
    """Register what makes, for one operation, the function from arrays to an array that it applies element by element."""

    def register(factory: ElementwiseFactory) -> ElementwiseFactory:
        def build(op: Operation, attributes: Attributes, translator: Translator) -> Step:
            return _applied(factory(op, attributes), translator.slots(op.operands), translator.define(op.results[0]))

        BUILDERS.update(dict.fromkeys(names, build))
        ELEMENTWISE.update(names)
        return factory

    return register


def _applied(function: Callable[..., Any], operands: tuple[int, ...], result: int) -> Step:
    """Return the step that writes `function` of the operands' slots; one closure for each count, since this is the inner loop."""
    if len(operands) == 1:
        (a,) = operands

        def one(frame: Frame, _run: Run) -> None:
            frame[result] = function(frame[a])

        return one
    if len(operands) == 2:
        a, b = operands

        def two(frame: Frame, _run: Run) -> None:
            frame[result] = function(frame[a], frame[b])

        return two

    def several(frame: Frame, _run: Run) -> None:
        frame[result] = function(*[frame[slot] for slot in operands])

    return several


class Translator:
    """The state while one function of a module is translated: which slot each SSA name has."""

    def __init__(self, module: Module, function: Callable[[str], Function]) -> None:
        self.function = function
        self.locations = Locations(module.locations)
        self.slot_count = 0
        self.largest = 1
        self.constants: set[str] = set()
        self._slots: dict[str, int] = {}

    def define(self, name: str) -> int:
        """Return a new slot for an SSA name; sibling regions reuse names, so the latest definition counts."""
        self.constants.discard(name)
        self._slots[name] = self.slot_count
        self.slot_count += 1
        return self._slots[name]

    def defined(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return a new slot for each name."""
        return tuple(self.define(name) for name in names)

    def slot(self, name: str) -> int:
        """Return the slot of a name."""
        return self._slots[name]

    def slots(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return the slots of names."""
        return tuple(self._slots[name] for name in names)

    def where(self, op: Operation) -> Callable[[], str]:
        """Return what tells an operation's source line when it is asked."""
        return lambda: self.locations.where(op.location)

    def block(self, block: Block, keep: frozenset[str] = frozenset()) -> list[Step]:
        """Return the steps of a block without its terminator; a value is dropped after its last use unless `keep` names it."""
        body = [op for op in block.operations if op.name not in TERMINATORS]
        last = _last_uses(block)
        steps: list[Step] = []
        for index, op in enumerate(body):
            steps.append(self.step(op))
            dropped = [self.slot(name) for name, use in last.items() if use == index and name not in keep]
            if dropped:
                steps.append(_dropping(tuple(dropped)))
        return steps

    def step(self, op: Operation) -> Step:
        """Return the step of one operation.

        Raises:
            Unsupported: for an operation or attribute that is not known, with the source line.

        """
        builder = BUILDERS.get(op.name)
        if builder is None:
            raise Unsupported(f"the simulator does not know the operation {op.name}, at {self.where(op)()}; run this kernel on a GPU")
        attributes = Attributes(op)
        try:
            step = builder(op, attributes, self)
            attributes.finish()
        except Unsupported as reason:
            if ", at " in str(reason):
                raise
            raise Unsupported(f"{reason}, at {self.where(op)()}; run this kernel on a GPU") from None
        self._measure(op)
        if op.name == "arith.constant":
            self.constants.update(op.results)
        return step

    def _measure(self, op: Operation) -> None:
        for kind in op.result_types:
            count = 1
            for size in kind.shape:
                count *= size
            self.largest = max(self.largest, count)


def _last_uses(block: Block) -> dict[str, int]:
    """Return, for each value that the block itself defines, the index of the operation after which nothing reads it."""
    last: dict[str, int] = {}
    for index, op in enumerate(block.operations):
        for name in names_read(op):
            if name in last:
                last[name] = index
        last.update(dict.fromkeys(op.results, index))
    return last


def names_read(op: Operation) -> set[str]:
    """Return the SSA names that an operation and its regions read."""
    names = set(op.operands)
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                names |= names_read(inner)
    return names


def _dropping(slots: tuple[int, ...]) -> Step:
    def drop(frame: Frame, _run: Run) -> None:
        for slot in slots:
            frame[slot] = None

    return drop


def run_steps(steps: list[Step], frame: Frame, run: Run) -> None:
    """Run steps in order."""
    for step in steps:
        step(frame, run)

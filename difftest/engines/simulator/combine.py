"""Reduce and scan: the region of an operation runs on whole slices, so its arithmetic and rounding are those of any other operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.control import Body
from difftest.engines.simulator.translation import ELEMENTWISE, names_read, operation
from difftest.engines.simulator.values import filled_out
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from difftest.engines.simulator.attributes import Attributes
    from difftest.engines.simulator.mlir import Block, Operation
    from difftest.engines.simulator.run import Run
    from difftest.engines.simulator.translation import Frame, Step, Translator


class Combination:
    """The region of a reduce or scan, on arrays instead of scalars."""

    def __init__(self, op: Operation, translator: Translator) -> None:
        block = op.regions[0][0]
        if len(op.regions[0]) != 1 or not _is_closed(block, translator.constants):
            raise Unsupported(f"the simulator does not know {op.name} whose function branches, or reads a value of the kernel")
        self._body = Body(block, translator)
        self._is_elementwise = all(inner.name in ELEMENTWISE or inner.name == "arith.constant" for inner in block.operations[:-1])
        # One operation is commutative (add, max, and, ...); a longer function is only held to be associative, so order is kept.
        self.may_reorder = len(block.operations) == 2

    def __call__(self, frame: Frame, run: Run, left: list[Any], right: list[Any]) -> list[Any]:
        """Return the function of two lists of equally shaped arrays."""
        before, run.active = run.active, None  # the instances' mask does not fit arrays of lanes, and no effect can happen here
        try:
            shape = left[0].shape
            if self._is_elementwise:
                return [np.broadcast_to(value, shape) for value in self._body(frame, run, [*left, *right])]
            values = self._body(frame, run, [array.ravel() for array in left + right])  # branches know one axis only
            return [np.broadcast_to(value, left[0].size).reshape(shape) for value in values]
        finally:
            run.active = before


def _is_closed(block: Block, constants: set[str]) -> bool:
    """Return whether the block reads only what it defines, and constants that were hoisted out of it."""
    own = {*block.arguments, *(name for op in block.operations for name in op.results)}
    own |= {name for op in block.operations for region in op.regions for inner in region for name in _defined_in(inner)}
    return all(names_read(op) <= own | constants for op in block.operations)


def _defined_in(block: Block) -> set[str]:
    return {*block.arguments, *(name for op in block.operations for name in op.results)}


def _sources(frame: Frame, slots: tuple[int, ...], shape: tuple[int, ...], axis: int) -> list[Any]:
    """Return the operands with their axis of the reduction last, and one leading axis."""
    arrays = [filled_out(frame[slot], shape) for slot in slots]
    if len(arrays) > 1:
        arrays = list(np.broadcast_arrays(*arrays))
    return [np.moveaxis(array, axis + 1, -1) for array in arrays]


@operation("tt.reduce")
def _reduce(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    axis, shape = attributes.integer("axis"), op.operand_types[0].shape
    slots, function, results = translator.slots(op.operands), Combination(op, translator), translator.defined(op.results)

    def step(frame: Frame, run: Run) -> None:
        parts = _sources(frame, slots, shape, axis)
        while parts[0].shape[-1] > 1:
            parts = function(frame, run, *_halves(parts, reorder=function.may_reorder))
        for slot, part in zip(results, parts, strict=True):
            frame[slot] = part[..., 0]

    return step


def _halves(parts: list[Any], *, reorder: bool) -> tuple[list[Any], list[Any]]:
    """Return left and right operands of a round: two halves where order is free, else neighbours. Lengths are powers of two."""
    if reorder:
        half = parts[0].shape[-1] // 2
        return [part[..., :half] for part in parts], [part[..., half:] for part in parts]
    return [part[..., 0::2] for part in parts], [part[..., 1::2] for part in parts]


@operation("tt.scan")
def _scan(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    axis, shape, is_reverse = attributes.integer("axis"), op.operand_types[0].shape, attributes.flag("reverse", default=False)
    slots, function, results = translator.slots(op.operands), Combination(op, translator), translator.defined(op.results)

    def step(frame: Frame, run: Run) -> None:
        parts = _sources(frame, slots, shape, axis)
        order = range(shape[axis])[::-1] if is_reverse else range(shape[axis])
        out = [np.empty_like(part) for part in parts]
        total: list[Any] | None = None
        for index in order:
            following = [part[..., index] for part in parts]
            total = following if total is None else function(frame, run, total, following)
            for whole, value in zip(out, total, strict=True):
                whole[..., index] = value
        for slot, whole in zip(results, out, strict=True):
            frame[slot] = np.moveaxis(whole, -1, axis + 1)

    return step

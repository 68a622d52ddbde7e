"""Operations that touch memory or the outside: load, store, atomics, assert, assume, barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.engines.simulator import atomics
from difftest.engines.simulator.memory import Access, Touch, load, store, touches
from difftest.engines.simulator.run import positions_of
from difftest.engines.simulator.translation import operation
from difftest.errors import LaunchFailure, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.engines.simulator.attributes import Attributes
    from difftest.engines.simulator.mlir import Operation
    from difftest.engines.simulator.run import Run
    from difftest.engines.simulator.translation import Frame, Step, Translator
    from difftest.engines.simulator.values import Pointers


def _access(op: Operation, verb: str, translator: Translator) -> Access:
    kind = op.operand_types[0]
    return Access(verb, kind.pointee, kind.shape, translator.where(op))


def _optional(slot: int | None) -> Callable[[Frame], Any]:
    return (lambda _frame: None) if slot is None else (lambda frame: frame[slot])


@operation("tt.load")
def _load(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    access, slots = _access(op, "load", translator), iter(translator.slots(op.operands))
    pointer, mask, other = (next(slots) if size else None for size in attributes.integers("operandSegmentSizes"))
    mask_of, other_of, result = _optional(mask), _optional(other), translator.define(op.results[0])

    def step(frame: Frame, run: Run) -> None:
        frame[result] = load(run, access, frame[pointer], mask_of(frame), other_of(frame))  # type: ignore[index]

    return step


@operation("tt.store")
def _store(op: Operation, _attributes: Attributes, translator: Translator) -> Step:
    access = _access(op, "store", translator)
    pointer, value, *mask = translator.slots(op.operands)
    mask_of = _optional(mask[0] if mask else None)

    def step(frame: Frame, run: Run) -> None:
        store(run, access, frame[pointer], frame[value], mask_of(frame))

    return step


@operation("tt.atomic_rmw")
def _read_modify_write(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    access = _access(op, "atomic", translator)
    combine = atomics.combination(attributes.integer("atomic_rmw_op"), access.element)
    pointer, value, *mask = translator.slots(op.operands)
    mask_of, result = _optional(mask[0] if mask else None), translator.define(op.results[0])

    def step(frame: Frame, run: Run) -> None:
        touch = _only_touch(run, access, frame[pointer], mask_of(frame))
        frame[result] = atomics.read_modify_write(touch, (frame[value],), combine)

    return step


@operation("tt.atomic_cas")
def _compare_and_swap(op: Operation, _attributes: Attributes, translator: Translator) -> Step:
    access = _access(op, "atomic", translator)
    combine = atomics.swapped_if_equal(access.element)
    pointer, expected, value = translator.slots(op.operands)
    result = translator.define(op.results[0])

    def step(frame: Frame, run: Run) -> None:
        touch = _only_touch(run, access, frame[pointer], None)
        frame[result] = atomics.read_modify_write(touch, (frame[expected], frame[value]), combine)

    return step


def _only_touch(run: Run, access: Access, pointers: Pointers, mask: Any) -> Touch:
    if not isinstance(pointers.origin, int):
        raise Unsupported(f"the simulator does not know an atomic whose pointers mix tensors, at {access.where()}")
    return next(touches(run, access, pointers, mask))


@operation("tt.assert")
def _assert(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    message, where = attributes.text("message").strip('"'), translator.where(op)
    (condition,), rank = translator.slots(op.operands), len(op.operand_types[0].shape)

    def step(frame: Frame, run: Run) -> None:
        failed: Any = ~frame[condition]
        failed = failed if run.active is None else failed & run.active.reshape(-1, *(1,) * rank)
        if failed.any():
            instance, lane, _ = positions_of(run, failed)
            lanes = f", lane {lane[0] if len(lane) == 1 else lane}" if lane else ""
            raise LaunchFailure(f"assertion failed: {message}, program {run.program(instance)}{lanes}, at {where()}")

    return step


@operation("ttg.barrier", "gpu.barrier", "llvm.intr.assume")
def _nothing(_op: Operation, attributes: Attributes, _translator: Translator) -> Step:
    attributes.text("addrSpace", "")
    attributes.text("op_bundle_sizes", "")
    return lambda _frame, _run: None



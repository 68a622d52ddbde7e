"""Operations that make, move and reshape values; none of them rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.engines.simulator.attributes import constant
from difftest.engines.simulator.formats import format_of, from_stored, to_stored
from difftest.engines.simulator.translation import elementwise, operation
from difftest.engines.simulator.values import Pointers, chosen, filled_out, mapped
from difftest.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.engines.simulator.attributes import Attributes
    from difftest.engines.simulator.mlir import Operation
    from difftest.engines.simulator.run import Run
    from difftest.engines.simulator.translation import Frame, Step, Translator


@operation("arith.constant")
def _constant(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    value, _ = constant(attributes.text("value"))
    ready = value.reshape((1,) * (1 + len(op.result_types[0].shape)))
    return _always(ready, translator.define(op.results[0]))


@operation("tt.make_range")
def _make_range(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    ready = np.arange(attributes.integer("start"), attributes.integer("end"), dtype=np.int32)[None, :]
    return _always(ready, translator.define(op.results[0]))


def _always(value: Any, result: int) -> Step:
    value.flags.writeable = False

    def put(frame: Frame, _run: Run) -> None:
        frame[result] = value

    return put


@operation("tt.get_program_id", "tt.get_num_programs")
def _program(op: Operation, attributes: Attributes, translator: Translator) -> Step:
    axis, result, is_id = attributes.integer("axis"), translator.define(op.results[0]), op.name == "tt.get_program_id"

    def put(frame: Frame, run: Run) -> None:
        frame[result] = run.program_ids(axis) if is_id else np.array([run.grid[axis]], dtype=np.int32)

    return put


def _moved(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: mapped(function, value)


@elementwise("tt.splat")
def _splat(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    rank = len(op.result_types[0].shape)
    return _moved(lambda a: a.reshape(-1, *(1,) * rank))


@elementwise("tt.broadcast")
def _broadcast(_op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    return lambda value: value  # an axis of length 1 stands for any length


@elementwise("tt.unsplat")
def _unsplat(_op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    return _moved(lambda a: a.reshape(-1))


@elementwise("tt.expand_dims")
def _expand_dims(_op: Operation, attributes: Attributes) -> Callable[..., Any]:
    axis = attributes.integer("axis") + 1
    return _moved(lambda a: np.expand_dims(a, axis))


@elementwise("tt.trans")
def _transpose(_op: Operation, attributes: Attributes) -> Callable[..., Any]:
    order = (0, *(axis + 1 for axis in attributes.integers("order")))
    return _moved(lambda a: a.transpose(order))


@elementwise("tt.reshape")
def _reshape(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    before, after = op.operand_types[0].shape, op.result_types[0].shape
    return _moved(lambda a: filled_out(a, before).reshape(a.shape[0], *after))


@elementwise("tt.join")
def _join(_op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    return lambda a, b: _paired(lambda *parts: np.stack(np.broadcast_arrays(*parts), axis=-1), a, b)


@elementwise("tt.cat")
def _cat(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    shape = op.operand_types[0].shape

    def concatenate(a: Any, b: Any) -> Any:
        return np.concatenate(np.broadcast_arrays(filled_out(a, shape), filled_out(b, shape)), axis=1)

    return lambda a, b: _paired(concatenate, a, b)


def _paired(function: Callable[..., Any], a: Any, b: Any) -> Any:
    if type(a) is not Pointers:
        return function(a, b)
    same = isinstance(a.origin, int) and isinstance(b.origin, int) and a.origin == b.origin
    origin = a.origin if same else function(_origins(a), _origins(b))
    return Pointers(origin, function(a.offset.astype(np.int64), b.offset.astype(np.int64)))


def _origins(value: Pointers) -> Any:
    return np.broadcast_to(np.asarray(value.origin), value.offset.shape)


@operation("tt.split")
def _split(op: Operation, _attributes: Attributes, translator: Translator) -> Step:
    (source,), (first, second), shape = translator.slots(op.operands), translator.defined(op.results), op.operand_types[0].shape

    def split(frame: Frame, _run: Run) -> None:
        whole = mapped(lambda a: filled_out(a, shape), frame[source])
        frame[first] = mapped(lambda a: a[..., 0], whole)
        frame[second] = mapped(lambda a: a[..., 1], whole)

    return split


@elementwise("tt.gather")
def _gather(op: Operation, attributes: Attributes) -> Callable[..., Any]:
    axis, shape, indices = attributes.integer("axis"), op.operand_types[0].shape, op.operand_types[1].shape

    def gather(source: Any, index: Any) -> Any:
        count = max(source.shape[0], index.shape[0])
        source = np.broadcast_to(filled_out(source, shape), (count, *shape))
        index = np.broadcast_to(filled_out(index, indices), (count, *indices)).astype(np.int64)
        if index.min() < 0 or index.max() >= shape[axis]:
            raise Unsupported(f"tt.gather with an index outside 0..{shape[axis] - 1}: the result is undefined")
        return np.take_along_axis(source, index, axis=axis + 1)

    return gather


@elementwise("arith.select")
def _select(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    rank = len(op.result_types[0].shape)
    if op.operand_types[0].shape or not rank:
        return chosen
    return lambda condition, one, other: chosen(condition.reshape(-1, *(1,) * rank), one, other)


@elementwise("tt.addptr")
def _add_to_pointer(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    format_of(op.result_types[0].pointee)
    return lambda pointer, delta: Pointers(pointer.origin, np.add(pointer.offset, delta, dtype=np.int64))


@elementwise("tt.bitcast", "arith.bitcast")
def _bitcast(op: Operation, _attributes: Attributes) -> Callable[..., Any]:
    before, after = op.operand_types[0], op.result_types[0]
    if before.is_pointer and after.is_pointer:
        return _recast_pointer(format_of(before.pointee).itemsize, format_of(after.pointee).itemsize)
    if before.is_pointer or after.is_pointer or format_of(before.element).bits != format_of(after.element).bits:
        raise Unsupported(f"the simulator does not know a bitcast from {before.element} to {after.element}")
    if before.element == after.element:
        return lambda value: value
    return lambda value: from_stored(to_stored(np.ascontiguousarray(value), before.element), after.element)


def _recast_pointer(before: int, after: int) -> Callable[..., Any]:
    if before == after:
        return lambda value: value

    def recast(value: Pointers) -> Pointers:
        in_bytes = value.offset.astype(np.int64) * before
        if (in_bytes % after).any():
            raise Unsupported("the simulator does not know a pointer cast to a wider type at an address between two of its elements")
        return Pointers(value.origin, in_bytes // after)

    return recast

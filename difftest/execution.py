"""One launch of a spec on an engine: inputs in, an `Execution` out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from difftest.guards import run_guarded
from difftest.poison import bits, holds_poison, poison_
from difftest.uninitialised import poisoned_allocations, unwatched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from difftest.spec import KernelSpec
    from difftest.specialization import CompileKey
    from difftest.triton_adapter import Launch


@dataclass(frozen=True)
class LaunchRecord:
    """One `kernel[grid](...)` that the launch function made: the jit function, its compile key, and where."""

    kernel: Any
    arguments: Mapping[str, Any]
    key: CompileKey
    site: str


@dataclass(frozen=True)
class Execution:
    """What a launch gave: its outputs in the spec's order, the launches it made, and what it did beside."""

    outputs: tuple[Any, ...]
    launches: tuple[LaunchRecord, ...]
    changed_inputs: tuple[str, ...]
    unwritten: Mapping[str, int]  # output name to the number of elements that still hold poison


def execute(spec: KernelSpec, inputs: Mapping[str, Any], *, fusion: bool = True) -> Execution:
    """Run the spec's launch function once on `inputs`, guarded and poisoned, and return what it gave.

    The inputs named in `in_place` and `writes` are changed, as the launch changes them. The engine must be active.

    Args:
        spec: the promise.
        inputs: keyword arguments of the launch.
        fusion: False passes `enable_fp_fusion=False` to each kernel.

    """
    writable = {*spec.in_place, *spec.writes}
    kept = {name: value.clone() for name, value in inputs.items() if _is_tensor(value) and name not in writable}
    for name in spec.writes:
        poison_(inputs[name])
    records: list[LaunchRecord] = []
    with _guarded_launches(records, fusion=fusion), poisoned_allocations():
        returned = spec.launch(**inputs)
    outputs = _outputs(spec, inputs, returned)
    return Execution(
        outputs,
        tuple(records),
        tuple(name for name, before in kept.items() if not _same_bits(inputs[name], before)),
        _unwritten(spec, outputs),
    )


def record_launches(spec: KernelSpec, inputs: Mapping[str, Any]) -> tuple[LaunchRecord, ...]:
    """Return the launches that the launch function would make, with their keys, running no kernel.

    The engine must be active. A launch function that reads a result of its own kernels sees memory that no kernel wrote.
    """
    from difftest import triton_adapter  # noqa: PLC0415 - loads triton

    records: list[LaunchRecord] = []

    def only_record(launch: Launch, _proceed: Callable[..., Any]) -> None:
        records.append(_record(launch, launch.kwargs))

    with triton_adapter.intercept_launches(only_record):
        spec.launch(**inputs)
    return tuple(records)


def _guarded_launches(records: list[LaunchRecord], *, fusion: bool) -> Any:
    from difftest import triton_adapter  # noqa: PLC0415

    options = {} if fusion else {"enable_fp_fusion": False}

    def guarded(launch: Launch, proceed: Callable[..., Any]) -> Any:
        kwargs = {**launch.kwargs, **options}
        records.append(_record(launch, kwargs))
        names = {index: parameter.name for index, parameter in enumerate(triton_adapter.parameters(launch.jit))}
        with unwatched():
            return run_guarded(names, launch.args, kwargs, launch.site, proceed)

    return triton_adapter.intercept_launches(guarded)


def _record(launch: Launch, kwargs: Mapping[str, Any]) -> LaunchRecord:
    from difftest import triton_adapter  # noqa: PLC0415
    from difftest.specialization import compile_key  # noqa: PLC0415

    arguments = triton_adapter.bind(launch.jit, launch.args, kwargs).arguments
    return LaunchRecord(launch.jit, arguments, compile_key(launch.jit, launch.args, kwargs), launch.site)


def _outputs(spec: KernelSpec, inputs: Mapping[str, Any], returned: Any) -> tuple[Any, ...]:
    from_launch = iter(returned if isinstance(returned, (tuple, list)) else (returned,))
    changed = {*spec.in_place, *spec.writes}
    return tuple(inputs[name] if name in changed else next(from_launch, None) for name in spec.outputs)


def _unwritten(spec: KernelSpec, outputs: tuple[Any, ...]) -> dict[str, int]:
    """Return how many elements of each output (in-place ones apart) still hold the poison they started with."""
    counts = {}
    for name, output in zip(spec.outputs, outputs, strict=True):
        if _is_tensor(output) and name not in spec.in_place and (count := int(holds_poison(output).sum())):
            counts[name] = count
    return counts


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch  # noqa: PLC0415

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) if one.dtype.is_complex or one.dtype == torch.bool else torch.equal(bits(one), bits(other))


def _is_tensor(value: Any) -> bool:
    import torch  # noqa: PLC0415

    return isinstance(value, torch.Tensor)

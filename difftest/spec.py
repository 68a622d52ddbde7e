"""`KernelSpec`: what a kernel promises, and the registry of those promises."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from difftest.errors import InvalidSpec, suggestion
from difftest.tolerance import ErrorRatio, Exact, Ulp

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from difftest.case import Case
    from difftest.contract import Contract
    from difftest.policy import SpecializationPolicy
    from difftest.tensors import Tensors
    from difftest.tolerance import Tolerance


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """What one kernel promises and how to draw, make and judge its launches.

    Attributes:
        name: the registered name; also the name of the test.
        kernels: the jit functions that `launch` starts (also under `triton.autotune` or `triton.heuristics`).
        launch: the host function, called as `launch(**inputs)` and run unmodified.
        outputs: names of the outputs. A name that is in `in_place` or `writes` is read from the inputs after the launch; the others are
            what `launch` returns, in order.
        dtypes: the dtype cells, such as `("float32", "bfloat16")`. `cases` and `inputs` give the word its meaning.
        cases: dtype cell to a strategy of `Case`s. Each case holds `dtype` (the cell) and `seed`.
        inputs: `(case, tensors)` to the keyword arguments of `launch`; `tensors` fills tensors from the case's seed on the engine's device.
        torch_reference: called as `torch_reference(**inputs)` on clones; returns the outputs as a tuple in the order of `outputs`, rounding
            where the kernel rounds. Given float64 inputs it computes in float64.
        scipy_reference: called with the same inputs as numpy arrays (float64 and int64); returns a tuple of float64 or int64 arrays. It is
            another formulation and shares no code with `torch_reference`.
        scales: called like `scipy_reference`; returns for each output the size of the terms that each element sums, a float64 array of
            the output's shape. None for exact kernels.
        tolerance: per dtype cell, or one for all.
        contract: what may recompile.
        in_place: inputs that are read and changed by the launch.
        writes: inputs that the launch only writes: they start poisoned.
        policies: policies beyond the built-in ones.
        examples: named cases that always run, such as real model configurations.
        cut: `(case, limit)` to the same case with fewer frames, tokens or requests, at most `limit` output elements where that is possible;
            sizes that make up the model are never cut.
        finite: whether the inputs of a case are finite. Where they are not, only the op-by-op torch reference judges.
        strict: with fusion off the kernel equals `torch_reference` bit for bit.
        tile_rows: rows of an output (its first dimension) that are judged together as well as the whole; None for the whole only.

    """

    name: str
    kernels: tuple[Any, ...]
    launch: Callable[..., Any]
    outputs: tuple[str, ...]
    dtypes: tuple[str, ...]
    cases: Callable[[str], SearchStrategy[Case]]
    inputs: Callable[[Case, Tensors], Mapping[str, Any]]
    torch_reference: Callable[..., Any]
    scipy_reference: Callable[..., Any]
    tolerance: Tolerance | Mapping[str, Tolerance]
    contract: Contract
    scales: Callable[..., Any] | None = None
    in_place: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    policies: tuple[SpecializationPolicy, ...] = ()
    examples: Callable[[str], Mapping[str, Case]] = field(default=lambda _dtype: {})
    cut: Callable[[Case, int], Case] = field(default=lambda case, _limit: case)
    finite: Callable[[Case], bool] = field(default=lambda _case: True)
    strict: bool = False
    tile_rows: int | None = None

    def __post_init__(self) -> None:
        """Check every field that can be checked without a launch."""
        for problem in _problems(self):
            raise InvalidSpec(f"{self.name or '(unnamed)'}: {problem}")

    def tolerance_for(self, dtype: str) -> Tolerance:
        """Return the tolerance of a dtype cell."""
        return self.tolerance[dtype] if isinstance(self.tolerance, Mapping) else self.tolerance


def _problems(spec: KernelSpec) -> Iterator[str]:
    """Yield what is wrong with a spec, most basic first."""
    if not (isinstance(spec.name, str) and spec.name.isidentifier()):
        yield f"name={spec.name!r} is not an identifier; name the spec as its kernel file, such as 'rms_norm'"
    for name in ("kernels", "outputs", "dtypes", "in_place", "writes", "policies"):
        if not isinstance(getattr(spec, name), tuple):
            yield f"{name}={getattr(spec, name)!r} is not a tuple; write ({getattr(spec, name)!r},)"
    for name in ("kernels", "outputs", "dtypes"):
        if not getattr(spec, name):
            yield f"{name} is empty; nothing would be tested"
    for name in ("launch", "cases", "inputs", "torch_reference", "scipy_reference"):
        if not callable(getattr(spec, name)):
            yield f"{name}={getattr(spec, name)!r} is not callable"
    for kernel in spec.kernels:
        if not hasattr(kernel, "fn"):
            yield f"kernels holds {kernel!r}, which is not a triton.jit function"
    yield from _tolerance_problems(spec)
    yield from _launch_problems(spec)


def _tolerance_problems(spec: KernelSpec) -> Iterator[str]:
    declared = spec.tolerance.values() if isinstance(spec.tolerance, Mapping) else (spec.tolerance,)
    for one in declared:
        if not isinstance(one, (Exact, Ulp, ErrorRatio)):
            yield f"tolerance={one!r} is not a tolerance; write exact, ulp(n) or error_ratio(c=2.0, floor=1.0)"
    for dtype in spec.dtypes:
        if not isinstance(dtype, str):
            yield f"dtypes holds {dtype!r}, which is not a word such as 'float32'"
    if not hasattr(spec.contract, "vary"):
        yield f"contract={spec.contract!r} is not a Contract; write Contract(do_not_specialize=(...))"
    for policy in spec.policies:
        if not hasattr(policy, "apply"):
            yield f"policies holds {policy!r}, which is not a SpecializationPolicy"
    if isinstance(spec.tolerance, Mapping) and (missing := set(spec.dtypes) - set(spec.tolerance)):
        yield f"tolerance has no entry for {sorted(missing)}; dtypes are {list(spec.dtypes)}"


def _launch_problems(spec: KernelSpec) -> Iterator[str]:
    try:
        parameters = inspect.signature(spec.launch).parameters
    except (TypeError, ValueError):
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for role in ("in_place", "writes"):
        for name in getattr(spec, role):
            if name not in parameters:
                yield f"{role} names {name!r}, which is not a parameter of {spec.launch.__name__}{suggestion(name, parameters)}"
    for name in spec.writes:
        if name not in spec.outputs:
            yield f"writes names {name!r}, which is not in outputs={spec.outputs!r}: what a launch writes is judged"


_registry: dict[str, KernelSpec] = {}


def register(spec: KernelSpec) -> KernelSpec:
    """Add a spec to the registry and return it.

    Raises:
        InvalidSpec: when another spec of that name was registered from another file.

    """
    if not isinstance(spec, KernelSpec):
        raise InvalidSpec(f"register() takes a KernelSpec, not {type(spec).__name__}")
    known = _registry.get(spec.name)
    if known is not None and _home(known) != _home(spec):
        raise InvalidSpec(f"{spec.name!r} is registered twice, in {_home(known)} and in {_home(spec)}; give one of them another name")
    _registry[spec.name] = spec
    return spec


def registered() -> Mapping[str, KernelSpec]:
    """Return the registered specs by name, in order of registration."""
    return dict(_registry)


@contextlib.contextmanager
def collecting() -> Iterator[dict[str, KernelSpec]]:
    """Collect what is registered inside, apart from the process's registry."""
    global _registry  # noqa: PLW0603 - the registry is the process's, and this swaps it for a moment
    outer, _registry = _registry, {}
    try:
        yield _registry
    finally:
        _registry = outer


def _home(spec: KernelSpec) -> str:
    return inspect.getfile(inspect.unwrap(spec.torch_reference))

"""Engines: where a launch runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from difftest.errors import EngineUnavailable, UnknownName, suggestion

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import torch

ENGINES = ("gpu", "simulator")


class Engine(Protocol):
    """Where a launch runs; launch functions are run unmodified while it is active."""

    @property
    def name(self) -> str:
        """The engine's name."""

    @property
    def target(self) -> str:
        """What kernels are compiled for, such as "cuda:90"."""

    @property
    def device(self) -> torch.device:
        """Where inputs must lie."""

    @property
    def shows_fusion(self) -> bool:
        """Whether the option `enable_fp_fusion` can change a result."""

    def activate(self) -> AbstractContextManager[None]:
        """Make every launch inside the block run on this engine."""


def engine_named(name: str, target: str | None = None) -> Engine:
    """Return the engine of that name.

    Args:
        name: "gpu" or "simulator".
        target: what the simulator compiles for; the GPU's target is its own.

    Raises:
        UnknownName: for another name.
        EngineUnavailable: for "gpu" on a machine without one, or with a target that is not the GPU's.

    """
    if name == "simulator":
        from difftest.engines.simulator.engine import SimulatorEngine  # noqa: PLC0415 - loading difftest must not load torch or triton

        return SimulatorEngine(target) if target else SimulatorEngine()
    if name == "gpu":
        return _gpu(target)
    raise UnknownName(f"there is no engine {name!r}{suggestion(name, ENGINES)}")


def _gpu(target: str | None) -> Engine:
    from difftest.engines.gpu import GpuEngine  # noqa: PLC0415

    engine = GpuEngine()
    if target not in {None, engine.target}:
        raise EngineUnavailable(f"the GPU of this machine is {engine.target}, not {target}; leave the target out, or use the simulator")
    return engine


def default_engine_name() -> str:
    """Return "gpu" where torch sees one, else "simulator"."""
    import torch  # noqa: PLC0415

    return "gpu" if torch.cuda.is_available() else "simulator"

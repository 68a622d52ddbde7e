"""A replay file judged again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from difftest.artifacts import ReplayFile, read_replay
from difftest.cell import Cell
from difftest.discovery import load_registered, reference_roots
from difftest.engines import engine_named
from difftest.errors import DifftestError, EngineUnavailable, FindingError, ReplayError, suggestion
from difftest.policy import builtin_policies
from difftest.runner import CellRunner

if TYPE_CHECKING:
    from pathlib import Path

    from difftest.engines import Engine
    from difftest.policy import SpecializationPolicy
    from difftest.spec import KernelSpec


@dataclass(frozen=True)
class Outcome:
    """What a replay gave: the text to print, and 1 while the failure is there, else 0."""

    text: str
    exit_code: int


def replay_file(path: Path, root: Path, *, engine: str | None = None, target: str | None = None) -> Outcome:
    """Judge the case of a replay file on an engine, and return what was found.

    Args:
        path: the file.
        root: the project whose reference files register the kernel.
        engine: another engine than the one that found the failure.
        target: another target than the file's.

    Raises:
        ReplayError: when the file cannot be used here, with the reason.

    """
    file = read_replay(path)
    spec = _spec(file, path, root)
    chosen = _engine(file, engine, target)
    cell = Cell(spec, _policy(spec, file, path), file.dtype, chosen)
    moved = _moved(file, chosen)
    with CellRunner(cell) as runner:
        try:
            judgement = runner.check_all(file.case)
        except FindingError as error:
            return Outcome(f"still fails: {error.kind}: {error}{moved}", 1)
        except DifftestError:
            raise
        except Exception as error:  # the case may come from another version of the strategy: its fields then mislead the spec's own code
            raise ReplayError(
                f"{path}: the case does not fit the {file.kernel} that is registered here ({type(error).__name__}: {error}); "
                "the strategy changed since the file was written: check out the version that wrote it"
            ) from error
    return Outcome(f"passes: {cell} agrees on {judgement.tolerant.compared} elements; case: {file.case!r}{moved}", 0)


def _moved(file: ReplayFile, engine: Engine) -> str:
    """Return a line where the case is judged elsewhere than it was found."""
    if (engine.name, engine.target) == (file.engine, file.target):
        return ""
    return f"\nnote: found on {file.engine} ({file.target}), judged on {engine.name} ({engine.target})"


def _spec(file: ReplayFile, path: Path, root: Path) -> KernelSpec:
    specs = load_registered(root, reference_roots(root))
    if file.kernel not in specs:
        raise ReplayError(f"{path}: no kernel {file.kernel!r} is registered here{suggestion(file.kernel, specs)}")
    spec = specs[file.kernel]
    if file.dtype not in spec.dtypes:
        raise ReplayError(f"{path}: {file.kernel} has no dtype {file.dtype!r}{suggestion(file.dtype, spec.dtypes)}")
    return spec


def _policy(spec: KernelSpec, file: ReplayFile, path: Path) -> SpecializationPolicy:
    policies = {policy.name: policy for policy in (*builtin_policies(), *spec.policies)}
    if file.policy not in policies:
        raise ReplayError(f"{path}: {file.kernel} has no policy {file.policy!r}{suggestion(file.policy, policies)}")
    return policies[file.policy]


def _engine(file: ReplayFile, engine: str | None, target: str | None) -> Engine:
    """Return the engine asked for, else the file's, else the simulator where the file's is not here."""
    if engine is not None:
        return engine_named(engine, target=target)
    try:
        return engine_named(file.engine, target=target or (file.target if file.engine == "simulator" else None))
    except EngineUnavailable:
        return engine_named("simulator", target=target or file.target)

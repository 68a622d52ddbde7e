"""Collected cells: one pytest item per kernel x policy x dtype of a reference file."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from difftest.artifacts import write_replay
from difftest.cell import Cell
from difftest.differential import differential_test
from difftest.engines import default_engine_name, engine_named
from difftest.errors import DifftestError, FindingError, InvalidSpec, Mistrusted, UnknownName, Unsupported, suggestion
from difftest.plugin import VERDICT_PROPERTY, session_seed, setting
from difftest.policy import builtin_policies, powerset
from difftest.profiles import Profile, profile_named
from difftest.spec import KernelSpec, registered
from difftest.verdict import CellVerdict, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from difftest.case import Case
    from difftest.policy import SpecializationPolicy
    from difftest.runner import CellRunner

_OFFERED: pytest.StashKey[dict[str, set[str]]] = pytest.StashKey()


class ReferenceFile(pytest.File):
    """A file that registers specs; its items are their cells."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each selected cell of each spec that the file registers."""
        try:
            yield from self._cells()
        except DifftestError as error:
            raise self.CollectError(f"{type(error).__name__}: {error}") from None

    def _cells(self) -> Iterator[pytest.Item]:
        offered = offered_names(self.config)
        for spec in specs_of(self.path, self.config.rootpath):
            offered["kernel"].add(spec.name)
            if not _selected(self.config, "kernel", spec.name):
                continue
            policies = [*builtin_policies(), *spec.policies, *_powerset(self.config, spec)]
            offered["policy"].update(policy.name for policy in policies)
            offered["dtype"].update(spec.dtypes)
            for dtype in spec.dtypes:
                for policy in policies:
                    if _selected(self.config, "dtype", dtype) and _policy_selected(self.config, policy.name):
                        yield CellItem.from_parent(self, name=f"{spec.name}[{policy.name}-{dtype}]", spec=spec, policy=policy, dtype=dtype)


class CellItem(pytest.Item):
    """One cell as a test."""

    def __init__(self, *, spec: KernelSpec, policy: SpecializationPolicy, dtype: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec, self.policy, self.dtype = spec, policy, dtype
        self.add_marker(pytest.mark.xdist_group(f"{spec.name}-{dtype}"))

    def runtest(self) -> None:
        """Run the cell, and leave its verdict in the report."""
        seed = session_seed(self.config)
        cell: Cell | None = None
        try:
            cell = Cell(self.spec, self.policy, self.dtype, engine_of(self.config))
            runner = differential_test(cell, profile_of(self.config), session_seed=seed)
            self._report(verdict_of(runner, "passed"))
        except Unsupported as error:
            self._report(self._verdict(error, "unsupported", str(error)))
            pytest.skip(f"unsupported: {error}")
        except DifftestError as error:
            self._report(self._verdict(error, "error", type(error).__name__))
            raise
        except FindingError as error:
            self._fail(cell, error, seed)
            raise

    def _fail(self, cell: Cell | None, error: FindingError, seed: int) -> None:
        """Write the failing case, and add the lines that replay it."""
        verdict = "mistrusted" if isinstance(error, Mistrusted) else "failed"
        case, replay = getattr(error, "case", None), ""
        lines = [f"--difftest-seed={seed} replays it alone: {self._command(seed)}"]
        if case is not None and cell is not None:
            directory = Path(setting(self.config, "failures") or self.config.rootpath / ".difftest" / "failures")
            root = self.config.rootpath
            reference = self.path.relative_to(root).as_posix() if self.path.is_relative_to(root) else str(self.path)
            try:
                replay = str(write_replay(directory, cell, case, error, session_seed=seed, reference=reference))
                lines.append(f"the case as a file: difftest replay {replay}")
            except DifftestError as unwritten:
                lines.append(str(unwritten))
        for line in lines:
            error.add_note(line)
        self._report(self._verdict(error, verdict, error.kind, replay=replay))

    def _command(self, seed: int) -> str:
        given = [(name, setting(self.config, name)) for name in ("engine", "target", "profile", "cases")]
        options = "".join(f" --{name} {value}" for name, value in given if value)
        return f"difftest run {self.spec.name} --policy {self.policy.name} --dtype {self.dtype} --seed {seed}{options}"

    def _verdict(self, error: BaseException, verdict: str, finding: str, *, replay: str = "") -> CellVerdict:
        runner: CellRunner | None = getattr(error, "runner", None)
        if runner is not None:
            return verdict_of(runner, verdict, finding=finding, replay=replay)
        engine = setting(self.config, "engine") or "auto"
        return CellVerdict(self.spec.name, self.policy.name, self.dtype, engine, setting(self.config, "target"), verdict, finding)

    def _report(self, verdict: CellVerdict) -> None:
        self.user_properties.append((VERDICT_PROPERTY, verdict.as_dict()))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message alone for what difftest says; the traceback is ours and not the user's."""
        if isinstance(excinfo.value, (FindingError, DifftestError)):
            kind = excinfo.value.kind if isinstance(excinfo.value, FindingError) else type(excinfo.value).__name__
            return "\n".join([f"{kind}: {excinfo.value}", *getattr(excinfo.value, "__notes__", [])])
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the promise stands: the line of the torch reference."""
        return self.path, inspect.getsourcelines(inspect.unwrap(self.spec.torch_reference))[1] - 1, self.name


def specs_of(path: Path, root: Path) -> list[KernelSpec]:
    """Return the specs that a reference file registers, importing it.

    Raises:
        InvalidSpec: when importing the file fails, with the reason.

    """
    relative = path.relative_to(root).with_suffix("") if path.is_relative_to(root) else Path(path.stem)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        module = importlib.import_module(".".join(relative.parts))
    except DifftestError:
        raise
    except Exception as error:
        raise InvalidSpec(f"{path}: importing it raised {type(error).__name__}: {error}; mend the file, then run again") from error
    return [spec for spec in registered().values() if spec in _held(module)]


def _held(module: Any) -> list[KernelSpec]:
    return [value for value in vars(module).values() if isinstance(value, KernelSpec)]


def engine_of(config: pytest.Config) -> Any:
    """Return the engine that the options name."""
    return engine_named(setting(config, "engine") or default_engine_name(), target=setting(config, "target") or None)


def profile_of(config: pytest.Config) -> Profile:
    """Return the profile that the options name, with `--difftest-cases` applied.

    Raises:
        UnknownName: for another profile.
        DifftestError: when the number of cases is not a positive integer.

    """
    profile = profile_named(setting(config, "profile") or "dev")
    cases = setting(config, "cases")
    if not cases:
        return profile
    if not cases.isdigit() or int(cases) < 1:
        raise DifftestError(f"difftest_cases={cases!r}: expected a positive integer")
    return Profile(profile.name, int(cases), profile.contract_cases, profile.simulator_elements)


def offered_names(config: pytest.Config) -> dict[str, set[str]]:
    """Return the kernels that were collected, and the policies and dtypes of the selected ones: a set to add to."""
    return config.stash.setdefault(_OFFERED, {"kernel": set(), "policy": set(), "dtype": set()})


def check_selection(config: pytest.Config) -> None:
    """Check that every selected kernel, policy and dtype exists.

    Raises:
        UnknownName: for the first that does not, with the closest name.

    """
    for role, known in offered_names(config).items():
        for name in config.getoption(f"--difftest-{role}"):
            if name not in known and not (role == "policy" and name == "powerset"):
                raise UnknownName(f"no {role} {name!r} among the collected kernels{suggestion(name, known)}")


def _powerset(config: pytest.Config, spec: KernelSpec) -> list[SpecializationPolicy]:
    """Return a policy for every subset of the scalars that a first launch passes, where `--difftest-policy=powerset` asks for it."""
    if "powerset" not in config.getoption("--difftest-policy"):
        return []
    import hypothesis  # noqa: PLC0415

    from difftest.execution import LaunchRecord, record_launches  # noqa: PLC0415 - loads triton
    from difftest.tensors import Tensors  # noqa: PLC0415

    engine = engine_of(config)

    def launches(case: Case) -> tuple[LaunchRecord, ...]:
        return record_launches(spec, dict(spec.inputs(case, Tensors(case["seed"], engine.device))))

    with engine.activate():
        # The smallest case that starts a kernel: it has the same arguments as any other.
        found = hypothesis.find(spec.cases(spec.dtypes[0]), lambda case: bool(launches(case)), settings=hypothesis.settings(database=None))
        records = launches(found)
    return powerset({record.kernel: record.arguments for record in records})


def _policy_selected(config: pytest.Config, name: str) -> bool:
    wanted = config.getoption("--difftest-policy")
    return not wanted or name in wanted or ("powerset" in wanted and name.startswith("powerset"))


def _selected(config: pytest.Config, role: str, name: str) -> bool:
    wanted = config.getoption(f"--difftest-{role}")
    return not wanted or name in wanted

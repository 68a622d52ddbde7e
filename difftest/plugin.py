"""The pytest plugin: options, collection of registered kernels, fixtures, header and summary.

Loaded in every pytest run where difftest is installed, so it imports neither torch nor triton; what does is imported where it is needed.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from difftest.verdict import CellVerdict

VERDICT_PROPERTY = "difftest"
_SESSION_SEED_BITS = 32


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the `--difftest-*` options, each with an ini twin."""
    group = parser.getgroup("difftest", "differential tests of Triton kernels")
    option = group.addoption
    option("--difftest-engine", metavar="NAME", help="gpu or simulator (default: gpu where there is one, else simulator)")
    option("--difftest-target", metavar="TARGET", help="what the simulator compiles for, such as cuda:90 or hip:gfx942 (default: cuda:90)")
    option("--difftest-profile", metavar="NAME", help="smoke, dev, ci or nightly: how much is done (default: dev)")
    option("--difftest-cases", type=int, metavar="N", help="cases that each cell must count (default: the profile's)")
    option("--difftest-seed", type=int, metavar="N", help="seed of the run (default: --hypothesis-seed, else drawn and printed)")
    option("--difftest-kernel", action="append", default=[], metavar="NAME", help="only this kernel; repeatable")
    option("--difftest-policy", action="append", default=[], metavar="NAME", help="only this policy, or 'powerset'; repeatable")
    option("--difftest-dtype", action="append", default=[], metavar="NAME", help="only this dtype cell; repeatable")
    option("--difftest-failures", metavar="DIR", help="where failing cases are written (default: .difftest/failures)")
    option("--difftest-summary", action="store_true", help="print the table of verdicts also under -q")
    option("--require-gpu", action="store_true", help="a GPU test that would be skipped for want of a GPU fails instead")
    parser.addini("difftest_references", "directories whose files register kernels", type="args", default=["reference"])
    for name, help_text in (
        ("engine", "as --difftest-engine"),
        ("target", "as --difftest-target"),
        ("profile", "as --difftest-profile"),
        ("cases", "as --difftest-cases"),
        ("failures", "as --difftest-failures"),
    ):
        parser.addini(f"difftest_{name}", help_text, default="")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Keep the cells of one kernel and dtype on one xdist worker: they share golden answers and compiled keys."""
    if getattr(config.option, "numprocesses", None) and getattr(config.option, "dist", "no") == "no":
        config.option.dist = "loadgroup"


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, fix the session seed, and give each xdist worker a Triton cache of its own."""
    config.addinivalue_line("markers", "gpu: needs a GPU; skipped with a reason where there is none, failed under --require-gpu")
    config.addinivalue_line("markers", "xdist_group(name): tests of one group run on one worker")
    config.stash[_SEED] = _session_seed(config)
    config.stash[_VERDICTS] = []
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker:
        # One torch thread a worker: the workers already are one a core. Read when torch is first imported, which is later.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    if worker and "TRITON_CACHE_DIR" not in os.environ:
        # Processes that share one cold cache directory have been seen to race.
        os.environ["TRITON_CACHE_DIR"] = str(config.rootpath / ".difftest" / "triton" / worker)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the session seed to an xdist worker."""
    node.workerinput["difftest_seed"] = node.config.stash[_SEED]


def pytest_report_header(config: pytest.Config) -> str:
    """Return the line that says what judges, and the seed that repeats the run."""
    from difftest.artifacts import versions  # noqa: PLC0415

    found = versions()
    engine = setting(config, "engine") or "auto"
    return (
        f"difftest: engine {engine}, target {setting(config, 'target') or 'cuda:90'}, torch {found['torch']}, triton {found['triton']}, "
        f"--difftest-seed={config.stash[_SEED]}"
    )


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a reference file that was named on the command line as cells, not as a module of tests."""
    return _reference_file(module_path, parent) if _is_reference(module_path, parent.config) else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the cells of a reference file that was found by its directory."""
    if parent.session.isinitpath(file_path) or not _is_reference(file_path, parent.config):
        return None
    return _reference_file(file_path, parent)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the controller which names were offered, or, in a run of one process, refuse one that selected nothing."""
    config = session.config
    if not _selects(config):
        return
    from difftest.collection import offered_names  # noqa: PLC0415

    if hasattr(config, "workeroutput"):
        config.workeroutput["difftest_offered"] = {role: sorted(names) for role, names in offered_names(config).items()}
    elif not session.testsfailed and (problem := _selection_problem(config)):
        raise pytest.UsageError(problem)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a worker which names it was offered."""
    from difftest.collection import offered_names  # noqa: PLC0415

    for role, names in getattr(node, "workeroutput", {}).get("difftest_offered", {}).items():
        offered_names(node.config)[role].update(names)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember that a file could not be collected."""
    if report.failed and _config is not None:
        _config.stash[_UNCOLLECTED] = True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a GPU test where there is no GPU, with the reason, or fail it under --require-gpu."""
    if item.get_closest_marker("gpu") is None:
        return
    import torch  # noqa: PLC0415

    if torch.cuda.is_available():
        return
    if item.config.getoption("--require-gpu"):
        pytest.fail("needs a GPU, torch sees none, and --require-gpu was given", pytrace=False)
    pytest.skip("needs a GPU, and torch sees none")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the verdict that a cell's report carries (on the controller, also from workers)."""
    from difftest.verdict import CellVerdict  # noqa: PLC0415

    for name, value in report.user_properties:
        if name == VERDICT_PROPERTY and report.when == "call" and _config is not None:
            _config.stash[_VERDICTS].append(CellVerdict.from_dict(value))  # type: ignore[arg-type]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Set the exit code: 2 where a name, a spec or the environment was at fault, 1 where cells were run and nothing was compared."""
    config = session.config
    verdicts = config.stash[_VERDICTS]
    if hasattr(config, "workerinput"):
        return
    if any(verdict.verdict == "error" for verdict in verdicts) or (_difftest_only(config) and config.stash.get(_UNCOLLECTED, False)):
        session.exitstatus = 2
    elif problem := _problem_of_workers(config):
        config.stash[_PROBLEM] = problem
        session.exitstatus = 2
    elif verdicts and not any(verdict.cases for verdict in verdicts) and session.exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of verdicts; under -q only when something is wrong or it was asked for."""
    if problem := config.stash.get(_PROBLEM, ""):
        terminalreporter.write_line(f"ERROR: {problem}", red=True)
    verdicts = config.stash[_VERDICTS]
    silent = config.get_verbosity() < 0 and not config.getoption("--difftest-summary")
    if not verdicts or (silent and all(verdict.verdict == "passed" for verdict in verdicts)):
        return
    from difftest.summary import print_summary  # noqa: PLC0415

    print_summary(terminalreporter, verdicts, seed=config.stash[_SEED])


@pytest.fixture(scope="session")
def recompile_tracker(pytestconfig: pytest.Config) -> Callable[..., Any]:
    """Give the limit on compiles in a block, also inside `@given` bodies: call it with the kernels and `allow=`.

    Where there is no GPU, launches inside the block run on the simulator, or on the engine that the options name.
    """
    from difftest.tracking import tracker_on  # noqa: PLC0415 - loads torch and triton

    return tracker_on(setting(pytestconfig, "engine"), setting(pytestconfig, "target"))


def setting(config: pytest.Config, name: str) -> str:
    """Return an option, else its ini twin, else the empty string."""
    value = config.getoption(f"--difftest-{name}")
    return str(value) if value is not None else str(config.getini(f"difftest_{name}"))


def session_seed(config: pytest.Config) -> int:
    """Return the seed of the run."""
    return config.stash[_SEED]


_SEED = pytest.StashKey[int]()
_VERDICTS: pytest.StashKey[list[CellVerdict]] = pytest.StashKey()
_UNCOLLECTED = pytest.StashKey[bool]()
_PROBLEM = pytest.StashKey[str]()
_config: pytest.Config | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember the config: the log-report hook is given none."""
    global _config  # noqa: PLW0603 - pytest_runtest_logreport has no config argument
    _config = session.config


def _session_seed(config: pytest.Config) -> int:
    """Return the seed from xdist's controller, the option, Hypothesis's option, or a fresh one."""
    given = getattr(config, "workerinput", {}).get("difftest_seed")
    if given is None:
        given = config.getoption("--difftest-seed")
    if given is None:
        given = config.getoption("--hypothesis-seed", default=None)
    if given is None or str(given) == "random":
        return secrets.randbits(_SESSION_SEED_BITS)
    try:
        return int(given)
    except ValueError:
        raise pytest.UsageError(f"--hypothesis-seed={given!r}: difftest takes an integer; pass --difftest-seed=N for its own") from None


def _is_reference(path: Path, config: pytest.Config) -> bool:
    if path.suffix != ".py" or path.name.startswith(("_", "test_", "conftest")):
        return False
    roots = [config.rootpath / directory for directory in config.getini("difftest_references")]
    return any(root in path.parents for root in roots)


def _reference_file(path: Path, parent: pytest.Collector) -> pytest.Collector:
    from difftest.collection import ReferenceFile  # noqa: PLC0415

    return ReferenceFile.from_parent(parent, path=path)


def _selects(config: pytest.Config) -> bool:
    return any(config.getoption(f"--difftest-{name}") for name in ("kernel", "policy", "dtype"))


def _difftest_only(config: pytest.Config) -> bool:
    """Whether this is a `difftest run`, whose exit codes are difftest's."""
    return bool(config.getoption("--difftest-summary"))


def _problem_of_workers(config: pytest.Config) -> str:
    """Return `_selection_problem` where workers collected; one process has refused the name at once."""
    if not getattr(config.option, "numprocesses", None) or config.stash.get(_UNCOLLECTED, False):
        return ""
    return _selection_problem(config)


def _selection_problem(config: pytest.Config) -> str:
    """Return why a selected name does not exist, or the empty string."""
    if not _selects(config):
        return ""
    from difftest.collection import check_selection  # noqa: PLC0415
    from difftest.errors import DifftestError  # noqa: PLC0415

    try:
        check_selection(config)
    except DifftestError as error:
        return str(error)
    return ""

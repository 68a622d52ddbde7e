"""A whole cell: the contract, the explicit cases, and the generated ones, under Hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.case import Case
from difftest.errors import DifftestError, FindingError, InvalidStrategy, NothingCompared
from difftest.profiles import Profile, derived_seed
from difftest.runner import CellRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.cell import Cell

# A round of generation may draw repeated and empty cases, which do not count; further rounds, with seeds of their own, make up for them.
MAX_ROUNDS = 6


def differential_test(cell: Cell, profile: Profile, *, session_seed: int, shrink: bool = True) -> CellRunner:
    """Judge a cell on its contract, its explicit cases and `profile.cases` generated ones; return the runner with its tally.

    Args:
        cell: what to judge.
        profile: how much to do.
        session_seed: the seed of the run; the cell's own seed derives from it, the kernel and the dtype.
        shrink: whether a failing case is shrunk before it is reported.

    Raises:
        FindingError: the shrunk finding; its `case` attribute holds the case, and `runner` the runner.
        DifftestError: when the spec or the environment is at fault.

    """
    runner = CellRunner(cell)
    with runner:
        try:
            if cell.policy.is_production:
                _check_contract(runner, profile, session_seed, shrink=shrink)
            for name, case in cell.spec.examples(cell.dtype).items():
                _check_example(runner, profile, name, case)
            _generate(runner, profile, session_seed, shrink=shrink)
            runner.finish()
        except (FindingError, DifftestError) as error:
            error.runner = runner  # type: ignore[union-attr]
            raise
    return runner


def _check_contract(runner: CellRunner, profile: Profile, session_seed: int, *, shrink: bool) -> None:
    """Check the decorator, then the constructed pairs of a few drawn cases."""
    from difftest.contract_stage import check_pairs, check_promise  # noqa: PLC0415 - loads triton

    check_promise(runner.cell)
    seed = derived_seed(session_seed, runner.cell.spec.name, runner.cell.dtype, "contract")
    _hypothesis(runner, lambda case: check_pairs(runner, case), profile.contract_cases, seed, shrink=shrink)


def _check_example(runner: CellRunner, profile: Profile, name: str, case: Case) -> None:
    small = case
    if runner.cell.engine.name == "simulator":
        small = runner.cell.spec.cut(case, profile.simulator_elements)
    if small != case:
        runner.tally.cut.append(name)
    try:
        runner.check(small)
    except FindingError as error:
        error.add_note(f"explicit case: {name}")
        error.case = small  # type: ignore[attr-defined]
        raise


def _generate(runner: CellRunner, profile: Profile, session_seed: int, *, shrink: bool) -> None:
    """Run rounds of generated cases until enough have counted; explicit cases are beside the count."""
    target = runner.tally.counted + profile.cases
    for number in range(MAX_ROUNDS):
        missing = target - runner.tally.counted
        if missing <= 0:
            return
        seed = derived_seed(session_seed, runner.cell.spec.name, runner.cell.dtype, number)
        _hypothesis(runner, runner.check, missing + missing // 4 + 2, seed, shrink=shrink)
    if runner.tally.counted < target:
        drawn = runner.tally.counted - target + profile.cases
        runner.tally.notes.append(f"only {drawn} of {profile.cases} generated cases were new and not empty")


def _hypothesis(runner: CellRunner, check: Callable[[Case], Any], examples: int, seed: int, *, shrink: bool) -> None:
    import hypothesis  # noqa: PLC0415 - loading difftest must not load hypothesis

    phases = [hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrink else [])]

    strategy = _strategy(runner)

    # No database and no derandomizing: a run is its seed, so that the printed seed replays it on any machine.
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=phases,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def cell_case(case: Case) -> None:
        _check_drawn(runner, case)
        try:
            check(case)
        except FindingError as error:
            error.case = case  # type: ignore[attr-defined]
            raise

    try:
        cell_case()
    except hypothesis.errors.Unsatisfiable as error:
        raise NothingCompared(f"{runner.cell}: the strategy of the spec drew nothing ({error}); check its cases()") from None


def _strategy(runner: CellRunner) -> Any:
    """Return the spec's strategy for the cell's dtype."""
    from hypothesis.strategies import SearchStrategy  # noqa: PLC0415

    name = f"{runner.cell.spec.name}: cases({runner.cell.dtype!r})"
    try:
        strategy = runner.cell.spec.cases(runner.cell.dtype)
    except DifftestError:
        raise
    except Exception as error:
        raise InvalidStrategy(f"{name} raised {type(error).__name__}: {error}; it is called with a dtype cell") from error
    if not isinstance(strategy, SearchStrategy):
        raise InvalidStrategy(f"{name} returned {type(strategy).__name__}, expected a Hypothesis strategy of Cases")
    return strategy


def _check_drawn(runner: CellRunner, case: Any) -> None:
    if not isinstance(case, Case) or not {"dtype", "seed"} <= set(case):
        raise InvalidStrategy(f"{runner.cell.spec.name}: cases() drew {case!r}; expected a Case with the fields 'dtype' and 'seed'")

"""One cell (kernel x policy x dtype) judged on an engine: the stages in order, and the only place that raises findings.

Hypothesis tells failures apart by the line that raises, so each kind of finding has one `raise` of its own.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import torch

from difftest import errors, triton_adapter
from difftest.cell import Cell, CellTally
from difftest.compile_log import CompileLog, recording_compiles
from difftest.contract import check_variants, groups_of
from difftest.execution import Execution, LaunchRecord, execute, record_launches
from difftest.golden import Golden, GoldenCache
from difftest.judge import Judgement, compare_outputs, compare_strictly, unwritten_message
from difftest.oracle import Trust, made_up_outputs, probe, smallest_error_seen
from difftest.tensors import Tensors
from difftest.ulps import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from difftest.case import Case
    from difftest.policy import AppliedPolicy

# How many cases of a cell the oracle itself is tried on: enough for every kind of made-up output to apply, few enough to cost little.
PROBED_CASES = 6
# A kind that was only ever accepted may have been so by chance, such as two equal rows swapped: more cases decide.
MOST_PROBED_CASES = 40
# A larger case costs a dozen comparisons of its size and shows nothing more.
PROBED_ELEMENTS = 1 << 17

# Code that is not the user's: this package, and what is installed beside torch.
_INSTALLED = (str(Path(__file__).parent) + os.sep, str(Path(torch.__file__).parents[1]) + os.sep)

_goldens = GoldenCache()


@dataclass
class CellRunner:
    """Judges cases of one cell, keeping one policy applied and one engine active in between.

    Use as a context manager: `with CellRunner(cell) as runner: runner.check(case)`.
    """

    cell: Cell
    tally: CellTally = field(default_factory=CellTally)
    trust: Trust = field(default_factory=Trust)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    log: CompileLog = field(default_factory=CompileLog)
    _applied: AppliedPolicy | None = None
    _probed: int = 0

    def __enter__(self) -> Self:
        self._stack.enter_context(self.cell.engine.activate())
        self.log = self._stack.enter_context(_counting_compiles(self.tally))
        if warning := triton_adapter.untested_triton():
            self.tally.notes.append(warning)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def check(self, case: Case) -> Judgement:
        """Judge one case.

        Raises:
            FindingError: of the kind that was found first, in the order of the stages.
            DifftestError: when the spec or the environment is at fault.

        """
        spec, tally = self.cell.spec, self.tally
        self._apply_policy(case)
        golden = _goldens.get(spec, case, self._inputs(case))
        if golden.agreement is not None and not golden.agreement.accepted:
            raise errors.ReferencesDisagree(self._text(case, golden.agreement.message()))
        execution = self._execution(case, fusion=True)
        self._check_conduct(case, execution)
        tolerant = compare_outputs(spec, case, golden, execution.outputs, fused=self.cell.engine.shows_fusion)
        tally.add_errors(tolerant)
        if not tolerant.accepted and tolerant.reason_kind == "shape or dtype mismatch":
            raise errors.ShapeOrDtypeMismatch(self._text(case, tolerant.message()))
        if not tolerant.accepted:
            raise errors.Disagreement(self._text(case, tolerant.message()))
        strict = self._strict(case, golden, execution)
        if strict is not None and not strict.accepted:
            raise errors.StrictDisagreement(self._text(case, strict.message()))
        tally.count(case, tolerant.compared)
        self._probe(case, golden)
        return Judgement(tolerant, strict)

    def check_all(self, case: Case) -> Judgement:
        """Judge one case and, for the production policy, the contract pairs that start from it: what a replay repeats."""
        if self.cell.policy.is_production:
            from difftest.contract_stage import check_pairs, check_promise  # noqa: PLC0415 - it imports this module

            check_promise(self.cell)
            check_pairs(self, case)
        return self.check(case)

    def finish(self) -> None:
        """Judge what only the whole cell shows.

        Raises:
            NothingCompared: when no case counted.
            ContractBreach: when a production cell met more compile keys than the contract allows, or a compile that no launch foresaw.
            Recompile: when Triton compiled for a key that the binder gave for none of the launches.
            Mistrusted: when the oracle accepted an output that is wrong by construction, or the contract pairs could not have failed.

        """
        if not self.tally.counted:
            raise errors.NothingCompared(f"{self.cell}: no case compared an element; {self.tally.why_nothing()}")
        if self.cell.policy.is_production and (problems := check_variants(self.cell.spec.contract, sorted(self.tally.keys, key=str))):
            raise errors.ContractBreach(f"{self.cell}: {'; '.join(problems)}")
        if unforeseen := self._unforeseen():
            raise errors.Recompile(f"{self.cell}: {unforeseen}")
        doubts = [f"the oracle accepts made-up outputs: {problem}" for problem in self.trust.problems()]
        doubts += [f"the contract pairs of `{name}` never met two classes" for name, could in self.tally.variations.items() if not could]
        if doubts:
            raise errors.Mistrusted(f"{self.cell}: a pass would mean nothing: {'; '.join(doubts)}")

    def keys_allowed(self) -> int | None:
        """Return how many keys the contract allows for the constexprs, options, dtypes and alignments met; None without a limit."""
        limit = self.cell.spec.contract.max_variants
        return None if limit is None or not self.cell.policy.is_production else limit * len(groups_of(self.tally.keys))

    def _unforeseen(self) -> str:
        """Return the compiles that Triton's hooks reported and no launch foresaw, in words."""
        events = [event for event in self.log.events if event.key not in self.tally.keys]
        return "; ".join(f"{event.kernel} was compiled, which no key foresaw: {event.key.in_words()} at {event.site}" for event in events)

    def recorded(self, case: Case) -> tuple[LaunchRecord, ...]:
        """Return the launches of a case with their compile keys, running no kernel."""
        try:
            return record_launches(self.cell.spec, self._inputs(case))
        except (errors.DifftestError, errors.FindingError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a launch function may raise anything
            self._fail_launch(case, error)

    def _fail_launch(self, case: Case, error: BaseException) -> NoReturn:
        raise errors.LaunchFailure(self._text(case, _raised(error))) from error

    def _inputs(self, case: Case) -> dict[str, Any]:
        tensors = Tensors(case["seed"], self.cell.engine.device)
        try:
            return dict(self.cell.spec.inputs(case, tensors))
        except errors.DifftestError:
            raise
        except Exception as error:
            words = _raised(error).removeprefix("the launch function ")
            raise errors.InvalidSpec(f"{self.cell.spec.name}: inputs() {words} for {case!r}") from error

    def _apply_policy(self, case: Case) -> None:
        """Apply the cell's policy at the first case: which arguments are scalars is seen in a launch that is recorded and not run."""
        if self._applied is not None:
            return
        samples: dict[Any, Mapping[str, Any]] = {}
        for record in self.recorded(case):
            samples.setdefault(record.kernel, record.arguments)
        if not samples:
            return  # an empty launch starts nothing; the next case may
        self._applied = self._stack.enter_context(self.cell.policy.apply(self.cell.spec.kernels, samples))
        self.tally.notes.extend(self._applied.notes)

    def _execution(self, case: Case, *, fusion: bool) -> Execution:
        try:
            execution = execute(self.cell.spec, self._inputs(case), fusion=fusion)
        except errors.OutOfBounds as fault:
            raise errors.OutOfBounds(self._text(case, str(fault))) from None
        except errors.NeverWritten as fault:
            raise errors.NeverWritten(self._text(case, str(fault))) from None
        except errors.GuardBandWrite as fault:
            raise errors.GuardBandWrite(self._text(case, str(fault))) from None
        except (errors.DifftestError, errors.FindingError):
            raise
        except (Exception, SystemExit) as error:
            if _is_compile_error(error):
                raise errors.CompileFailure(self._text(case, self._compile_failure(case, error))) from error
            self._fail_launch(case, error)
        self.tally.add_launches(execution.launches)
        return execution

    def _check_conduct(self, case: Case, execution: Execution) -> None:
        if execution.changed_inputs:
            names = ", ".join(execution.changed_inputs)
            raise errors.ChangedInput(self._text(case, f"the launch changed its input {names}; in_place={self.cell.spec.in_place!r}"))
        if execution.unwritten:
            raise errors.UnwrittenOutput(self._text(case, unwritten_message(self.cell.spec, execution)))

    def _strict(self, case: Case, golden: Golden, execution: Execution) -> Any:
        """Return the comparison of the leg without fusion; where fusion cannot show, one execution serves both legs."""
        if not self.cell.spec.strict:
            return None
        if self.cell.engine.shows_fusion and any(one.dtype.is_floating_point for one in golden.baseline):
            execution = self._execution(case, fusion=False)
        return compare_strictly(self.cell.spec, golden, execution.outputs)

    def _probe(self, case: Case, golden: Golden) -> None:
        """Try the oracle on made-up outputs of the first cases that compared something."""
        spec = self.cell.spec
        elements = sum(one.numel() for one in golden.baseline)
        enough = self._probed >= PROBED_CASES and not (self._probed < MOST_PROBED_CASES and self.trust.problems())
        if enough or golden.agreement is None or not 0 < elements <= PROBED_ELEMENTS:
            return
        self._probed += 1
        expected = tuple(rounded(one, low.dtype) for one, low in zip(golden.golden, golden.baseline, strict=True))

        def accepts(outputs: tuple[Any, ...]) -> bool:
            return compare_outputs(spec, case, golden, outputs).accepted

        made_up = made_up_outputs(expected, self._inputs(case), spec, golden, spec.tolerance_for(case["dtype"]))
        self.trust.add(probe(made_up, accepts))
        self.tally.add_smallest_error(smallest_error_seen(expected, golden, accepts))

    def _compile_failure(self, case: Case, error: BaseException) -> str:
        """Return the compile error with the classes that the failing launch had."""
        classes = "; ".join(f"{record.key.kernel}: {record.key.in_words()}" for record in self.recorded(case))
        return f"the kernel does not compile for {classes}\n{type(error).__name__}: {error}"

    def _text(self, case: Case, finding: str) -> str:
        return f"{self.cell}\n{finding}\ncase: {case!r}"


def _raised(error: BaseException) -> str:
    """Return what was raised, and the innermost line of the user's code that it came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_INSTALLED)]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else ""
    return f"the launch function raised {type(error).__name__}: {error}{where}"


def _is_compile_error(error: BaseException) -> bool:
    """Whether Triton or its backend raised while compiling, and not the launch function itself."""
    module = type(error).__module__
    return module.startswith("triton.") or (isinstance(error, RuntimeError) and "PassManager" in str(error))


@contextlib.contextmanager
def _counting_compiles(tally: CellTally) -> Iterator[CompileLog]:
    start = time.perf_counter()
    with recording_compiles() as log:
        yield log
    tally.compiles = len(log.events)
    tally.compile_seconds = sum(event.seconds for event in log.events)
    tally.seconds = time.perf_counter() - start

"""Every error a user can see.

Two families, never mixed. A `DifftestError` says that difftest was used wrongly or that the machine lacks something: the run ends with exit
code 2. A `FindingError` is an `AssertionError`: a kernel, a reference or a contract broke its promise, and the run ends with exit code 1.
Messages give the value, what was expected, and what to do next.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class DifftestError(Exception):
    """Misuse or a missing part of the environment; says what to do next."""


class InvalidSpec(DifftestError):
    """A `KernelSpec` has a field that cannot work."""


class InvalidCase(DifftestError):
    """A `Case` holds a value that is not JSON-able, or lacks a field."""


class InvalidContract(DifftestError):
    """A `Contract` names what the kernel does not have."""


class InvalidPolicy(DifftestError):
    """A specialization policy names what the kernel does not have."""


class InvalidReference(DifftestError):
    """A reference returned the wrong shape, dtype or number of outputs."""


class InvalidStrategy(DifftestError):
    """A strategy was asked for something it cannot draw, or draws nothing."""


class UnknownName(DifftestError):
    """A kernel, policy, dtype, engine or profile of that name is not registered."""


class UnknownTarget(DifftestError):
    """The installed Triton cannot compile for the target."""


class EngineUnavailable(DifftestError):
    """The engine cannot run on this machine."""


class UnsupportedTriton(DifftestError):
    """The installed Triton lacks a name that difftest needs."""


class CacheUnusable(DifftestError):
    """A directory that difftest must write to is read-only or full."""


class ReplayError(DifftestError):
    """A replay file cannot be used."""


class Unsupported(DifftestError):
    """The simulator does not know an operation, attribute or type of the kernel.

    The verdict is `unsupported`: never a guess.
    """


class FindingError(AssertionError):
    """A promise was broken. `kind` is the word used in reports."""

    kind = "finding"


class Disagreement(FindingError):
    """An output differs from the golden answer by more than the tolerance."""

    kind = "disagreement"


class StrictDisagreement(FindingError):
    """With fusion off, an output differs in bits from the op-by-op reference."""

    kind = "strict disagreement"


class ShapeOrDtypeMismatch(FindingError):
    """An output has another shape, dtype or count than the reference."""

    kind = "shape or dtype mismatch"


class GuardBandWrite(FindingError):
    """A kernel wrote outside the tensors it was given."""

    kind = "guard band write"


class MemoryFault(FindingError):
    """The simulator saw an access outside its tensor, or a read of memory nobody wrote."""

    kind = "memory fault"


class OutOfBounds(MemoryFault):
    """A load or store outside the tensor its pointer belongs to."""

    kind = "out of bounds"


class NeverWritten(MemoryFault):
    """A load of memory that nobody wrote."""

    kind = "never-written read"


class UnwrittenOutput(FindingError):
    """An output element still holds the poison it started with."""

    kind = "unwritten output"


class ChangedInput(FindingError):
    """An input that is not declared in place was changed."""

    kind = "changed input"


class Recompile(FindingError):
    """A kernel was compiled more often than allowed."""

    kind = "recompile"


class ContractBreach(FindingError):
    """The kernel's decorator or its compile keys break the declared contract."""

    kind = "contract breach"


class CompileFailure(FindingError):
    """The kernel does not compile for a specialization class."""

    kind = "compile failure"


class LaunchFailure(FindingError):
    """The launch function raised on a valid case."""

    kind = "launch failure"


class ReferencesDisagree(FindingError):
    """The torch reference in float64 and the scipy reference differ: neither may judge."""

    kind = "references disagree"


class Mistrusted(FindingError):
    """The oracle accepts an output that is wrong by construction, so a pass would mean nothing."""

    kind = "mistrusted"


class NothingCompared(FindingError):
    """A run ended without comparing one element."""

    kind = "nothing compared"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the closest of `known`, else `"; known: a, b, c"`."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else ""

"""Made-up outputs that are wrong by construction: an oracle that accepts one cannot be trusted.

Each is the expected output with one thing done to it that a broken kernel might do. `probe` shows them to the judge, and `Trust` says over
the cases of a cell what the judge never objected to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from difftest.comparison import compare_output
from difftest.made_up import Expected, wrong_outputs
from difftest.ulps import from_ordered, ordered, ulp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from difftest.golden import Golden
    from difftest.spec import KernelSpec
    from difftest.tolerance import Tolerance

REJECTED, ACCEPTED, NOT_APPLICABLE = "rejected", "accepted", "not applicable"
# These are wrong in every case where they apply. The others may come out right by chance, such as two rows that are nearly equal.
ALWAYS_REJECTED = ("error just past the limit", "one element NaN", "another dtype", "another shape")


@dataclass(frozen=True)
class MadeUp:
    """Wrong outputs of one kind in one output; `outputs` is None where the kind does not apply."""

    kind: str
    output: str
    outputs: tuple[torch.Tensor, ...] | None

    @property
    def name(self) -> str:
        """Return the kind and the output in words."""
        return f"{self.kind} in `{self.output}`"


def made_up_outputs(
    expected: Sequence[torch.Tensor], inputs: Mapping[str, Any], spec: KernelSpec, golden: Golden, tolerance: Tolerance
) -> Iterator[MadeUp]:
    """Yield made-up outputs of one case, in which one output is wrong and the others are as expected.

    Args:
        expected: the golden outputs, rounded to the output dtypes.
        inputs: the inputs of the launch, before it ran.
        spec: names the outputs, those in place, and the rows of a tile.
        golden: the golden answer that will judge, for the limit at one element.
        tolerance: the tolerance that will judge.

    """
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    for index, name in enumerate(spec.outputs):
        baseline, scale = golden.baseline[index], golden.scales[index]
        limit = compare_output(name, expected[index], golden.golden[index], baseline, scale, tolerance).allowed_peak
        one = Expected(
            expected=expected[index],
            golden=golden.golden[index],
            baseline=baseline,
            scale=scale,
            original=tensors.get(name) if name in spec.in_place else None,
            inputs=tuple(value for other, value in tensors.items() if other != name and other not in spec.writes),
            tile_rows=spec.tile_rows,
            limit=limit,
        )
        for kind, wrong in wrong_outputs(one):
            yield MadeUp(kind, name, None if wrong is None else (*expected[:index], wrong, *expected[index + 1 :]))


def probe(made_up: Iterable[MadeUp], judge: Callable[[tuple[torch.Tensor, ...]], bool]) -> dict[str, str]:
    """Return for each made-up output whether the judge rejected or accepted it, or that it was not applicable."""
    return {one.name: NOT_APPLICABLE if one.outputs is None else ACCEPTED if judge(one.outputs) else REJECTED for one in made_up}


def smallest_error_seen(
    expected: Sequence[torch.Tensor], golden: Golden, judge: Callable[[tuple[torch.Tensor, ...]], bool]
) -> float | None:
    """Return the smallest error at one element of the first output, in ULPs, that the judge was seen to reject.

    The element in the middle is moved away from zero by 1, 2, 4, ... representable values until the judge objects, then the interval is
    halved. The error is counted as the tolerance counts it. None for integers, for an empty output, and where nothing was rejected.
    """
    first = expected[0]
    if not first.numel() or not first.dtype.is_floating_point:
        return None
    middle = first.numel() // 2
    steps = _smallest_rejected_step(first, middle, lambda moved: judge((moved, *expected[1:])))
    return None if steps is None else _error_in_ulp(_moved(first, middle, steps), golden, middle)


@dataclass
class Trust:
    """What the judge did with made-up outputs over the cases of a cell."""

    _seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, probed: Mapping[str, str]) -> None:
        """Add the result of `probe` for one case."""
        self._seen.update(probed.items())

    @property
    def tried(self) -> int:
        """Return how many made-up outputs the judge saw."""
        return sum(count for (_, result), count in self._seen.items() if result != NOT_APPLICABLE)

    def problems(self) -> tuple[str, ...]:
        """Return why the judge cannot be trusted, one line for each kind of made-up output; empty when it can.

        A kind that applied must have been rejected in some case, and those of `ALWAYS_REJECTED` in every case. Nothing tried is a problem.
        """
        if not self.tried:
            return ("no made-up output applied to any case",)
        names = dict.fromkeys(name for name, _ in self._seen)
        return tuple(problem for name in names if (problem := self._problem(name)))

    def _problem(self, name: str) -> str:
        accepted, rejected = self._seen[name, ACCEPTED], self._seen[name, REJECTED]
        if accepted and (not rejected or name.startswith(ALWAYS_REJECTED)):
            return f"{name} (accepted in {accepted} of {accepted + rejected} cases)"
        return ""


def _smallest_rejected_step(values: torch.Tensor, index: int, judge: Callable[[torch.Tensor], bool]) -> int | None:
    """Return the smallest number of representable values at which the judge objects; it is taken to be monotonic."""
    high = 1
    while judge(_moved(values, index, high)):
        high *= 2
        if high > torch.iinfo(torch.int16).max:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if judge(_moved(values, index, middle)) else (low, middle)
    return high


def _moved(values: torch.Tensor, index: int, steps: int) -> torch.Tensor:
    """Return a copy with one element moved away from zero by representable values."""
    moved = values.clone(memory_format=torch.contiguous_format)
    one = moved.view(-1)[index : index + 1]
    order = ordered(one)
    one.copy_(from_ordered(order + steps * (1 if int(order) >= 0 else -1), values.dtype))
    return moved


def _error_in_ulp(moved: torch.Tensor, golden: Golden, index: int) -> float | None:
    exact, scale = golden.golden[0].reshape(-1)[index], golden.scales[0]
    magnitude = exact.abs() if scale is None else torch.maximum(exact.abs(), scale.reshape(-1)[index])
    error = float((moved.reshape(-1)[index].to(torch.float64) - exact).abs() / ulp(magnitude, moved.dtype))
    return error if error < float("inf") else None

"""Position ids of a batch: from a descriptor to a tensor of one or three planes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from difftest.errors import InvalidCase, suggestion
from difftest.tensors import Tensors

if TYPE_CHECKING:
    from difftest.case import Case


_KINDS = ("text", "image", "video", "gap", "reset", "repeat", "scatter")


def position_ids_tensor(descriptor: Case, tokens: int, *, device: torch.device | str, seed: int = 0) -> torch.Tensor:
    """Return position ids in `[0, descriptor.max_position)`, int64 `(3, tokens)` (time, height, width), or `(tokens,)` for one plane.

    `descriptor` is what `difftest.strategies.position_ids` draws. Its runs are repeated in order until there are `tokens` tokens and then
    cut, so one descriptor serves any number of tokens. A position that would pass the end wraps around to 0.

    Raises:
        InvalidCase: for an unknown kind of run, or runs which hold no token.

    """
    positions = _positions(_Runs.of(descriptor.runs), descriptor.start, tokens)
    positions += torch.tensor(descriptor.start, dtype=torch.int64)[:, None] - descriptor.start[0]
    positions %= descriptor.max_position
    scattered = _scattered(descriptor, tokens)
    if scattered.any():
        chance = Tensors(seed, "cpu").integers("position_ids", (tokens, 3), torch.int64, low=0, high=descriptor.max_position - 1)
        positions = torch.where(scattered, chance.T, positions)
    return (positions if descriptor.planes == 3 else positions[0].clone()).to(device)


@dataclass
class _Runs:
    """One pass through the runs: per token its three coordinates, and whether they are still counted from where the pass began."""

    planes: list[torch.Tensor] = field(default_factory=list)
    relative: list[bool] = field(default_factory=list)
    position: int = 0
    reset: bool = False

    @classmethod
    def of(cls, runs: tuple[Case, ...]) -> _Runs:
        result = cls()
        for run in runs:
            result.add(run)
        if not result.relative:
            raise InvalidCase(f"runs={runs!r} hold no token; add a run such as Case(kind='text', length=1)")
        return result

    def add(self, run: Case) -> None:
        if run.kind == "reset":
            self.position, self.reset = 0, True
        elif run.kind == "gap":
            self.position += run.length
        else:
            coordinates, advance = _coordinates(run)
            self.planes.append(coordinates + self.position)
            self.relative += [not self.reset] * coordinates.shape[1]
            self.position += advance


def _coordinates(run: Case) -> tuple[torch.Tensor, int]:
    """Return the coordinates of the tokens of a run from 0, int64 `(3, length)`, and how far the position moves."""
    if run.kind in ("text", "scatter"):
        return torch.arange(run.length).expand(3, -1), run.length
    if run.kind == "repeat":
        return torch.zeros((3, run.length), dtype=torch.int64), 1
    if run.kind in ("image", "video"):
        frames = run.t if run.kind == "video" else 1
        grid = torch.cartesian_prod(*(torch.arange(extent) for extent in (frames, run.h, run.w)))
        return grid.T, max(frames, run.h, run.w)
    raise InvalidCase(f"{run.kind!r} is not a kind of run{suggestion(str(run.kind), _KINDS)}")


def _positions(once: _Runs, start: tuple[int, ...], tokens: int) -> torch.Tensor:
    """Return positions counted from the time plane's start, int64 `(3, tokens)`: a later pass begins where the one before ended."""
    planes, relative = torch.cat(once.planes, dim=1), torch.tensor(once.relative)
    index = torch.arange(tokens)
    turn, where = index // planes.shape[1], index % planes.shape[1]
    begin = torch.where(turn > 0, once.position, start[0]) if once.reset else start[0] + turn * once.position
    return planes[:, where] + torch.where(relative[where], begin, 0)


def _scattered(descriptor: Case, tokens: int) -> torch.Tensor:
    """Return which tokens stand in a run of kind "scatter", bool `(tokens,)`."""
    once: list[bool] = []
    for run in descriptor.runs:
        once += [run.kind == "scatter"] * _length(run)
    return torch.tensor(once)[torch.arange(tokens) % len(once)]


def _length(run: Any) -> int:
    return 0 if run.kind in ("gap", "reset") else _coordinates(run)[0].shape[1]

"""One kernel of the corpus: what is launched, on what, and how its outputs are judged.

Imports torch and triton only: the recorder runs where difftest is not installed.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton

from corpus.agreement import Bits, Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FUSION_OFF = {"enable_fp_fusion": False}
OUTPUT_FILL = 0x55  # every byte of an output before the launch: what the kernel leaves alone is compared too


@dataclass(frozen=True)
class Output:
    """A tensor argument whose contents after the launch are recorded and compared."""

    tensor: torch.Tensor


@dataclass(frozen=True)
class Addresses:
    """An int64 tensor argument holding the addresses of the tensor arguments at `positions`."""

    positions: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One launch; `removed_in` is the Triton (major, minor) whose front end no longer takes the kernel, `risky` ones are recorded last."""

    name: str
    kernel: Any
    arguments: Callable[[], tuple[Any, ...]]
    covers: tuple[str, ...]
    grid: tuple[int, ...] = (4,)
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=lambda: dict(FUSION_OFF))
    policy: Policy = field(default_factory=Bits)
    policies: Mapping[int, Policy] = field(default_factory=dict)  # by output, instead of `policy`
    removed_in: tuple[int, int] | None = None
    risky: bool = False

    def compiles_on(self, version: str) -> bool:
        """Return whether the front end of Triton `version` takes the kernel."""
        major, minor = version.split(".")[:2]
        return self.removed_in is None or (int(major), int(minor)) < self.removed_in

    def policy_of(self, index: int) -> Policy:
        """Return how the output of that index is judged."""
        return self.policies.get(index, self.policy)


def empty(dtype: str, *shape: int) -> Output:
    """Return an output whose every byte is `OUTPUT_FILL` (for bool: true)."""
    if dtype == "bool":
        return Output(torch.ones(shape, dtype=torch.bool))
    size = getattr(torch, dtype).itemsize * int(np.prod(shape))
    filled = torch.full((size,), OUTPUT_FILL, dtype=torch.uint8)
    return Output(filled.view(getattr(torch, dtype)).reshape(shape))


def zeros(dtype: str, *shape: int) -> Output:
    """Return an output that starts as zeros, for kernels that accumulate."""
    return Output(torch.zeros(shape, dtype=getattr(torch, dtype)))


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the elements as unsigned integers of the same width, same shape (bool: uint8)."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype == torch.bool:
        return plain.numpy().view(np.uint8)
    width = plain.dtype.itemsize * 8
    return plain.view(torch.uint8).numpy().view(f"uint{width}").reshape(tuple(plain.shape))


def placed_arguments(entry: Entry, device: str) -> tuple[list[Any], list[torch.Tensor]]:
    """Return the launch arguments on `device` and those among them that are outputs."""
    described = entry.arguments()
    placed = [argument.tensor if isinstance(argument, Output) else argument for argument in described]
    placed = [a.to(device) if isinstance(a, torch.Tensor) else a for a in placed]
    for position, argument in enumerate(described):
        if isinstance(argument, Addresses):
            pointers = [placed[i].data_ptr() for i in argument.positions]
            placed[position] = torch.tensor(pointers, dtype=torch.int64, device=device)
    return placed, [placed[i] for i, argument in enumerate(described) if isinstance(argument, Output)]


def launch(entry: Entry, device: str) -> tuple[torch.Tensor, ...]:
    """Return the outputs of one launch, on the CPU."""
    arguments, outputs = placed_arguments(entry, device)
    entry.kernel[entry.grid](*arguments, **entry.constexprs, **entry.options)
    return tuple(output.cpu() for output in outputs)


def fingerprint(entry: Entry) -> str:
    """Return a digest of everything the recorded outputs depend on: source, inputs, grid, constexprs and options."""
    digest = hashlib.sha256()
    for piece in _identity(entry):
        digest.update(piece)
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def _identity(entry: Entry) -> list[bytes]:
    functions = [entry.kernel, *(v for v in entry.constexprs.values() if isinstance(v, triton.JITFunction))]
    named = {k: v for k, v in entry.constexprs.items() if not isinstance(v, triton.JITFunction)}
    pieces = [inspect.getsource(function.fn).encode() for function in functions]
    pieces.append(repr((entry.grid, sorted(named.items()), sorted(entry.options.items()))).encode())
    for argument in entry.arguments():
        tensor = argument.tensor if isinstance(argument, Output) else argument
        pieces.append(bits_of(tensor).tobytes() if isinstance(tensor, torch.Tensor) else repr(tensor).encode())
    return pieces


def all_entries() -> dict[str, Entry]:
    """Return every entry of every `kernels_*.py` of this folder by name, the risky ones last."""
    found: list[Entry] = []
    for path in sorted(Path(__file__).parent.glob("kernels_*.py")):
        found.extend(importlib.import_module(f"corpus.{path.stem}").ENTRIES)
    found.sort(key=lambda entry: entry.risky)
    by_name = {entry.name: entry for entry in found}
    if len(by_name) != len(found):
        names = [entry.name for entry in found]
        raise ValueError(f"two corpus entries share a name: {sorted({n for n in names if names.count(n) > 1})}")
    return by_name

"""What `recompile_tracker` costs a warm launch: the ratio of host time with and without it, in one run.

    python benchmarks/recompile_tracker.py [--json FILE]

On a GPU the launch is a real one; without a GPU Triton's own launch path runs with a compiled kernel that does nothing, which is the
launch's host cost alone. Rounds with and without the tracker alternate, and so do two rounds without it: their ratio is the noise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from difftest import recompile_tracker, triton_adapter
from difftest.artifacts import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAUNCHES = 2000
ROUNDS = 31


@triton.jit
def nothing_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, D103, N803 - a kernel
    tl.store(x_ptr, n * factor, mask=BLOCK < 0)


class NoOperation:
    """A compiled kernel that does nothing."""

    function = packed_metadata = None

    def launch_metadata(self, *_arguments: Any) -> None:
        """Return None."""

    def run(self, *_arguments: Any) -> None:
        """Do nothing."""

    def result(self) -> NoOperation:
        """Return the kernel."""
        return self


@contextlib.contextmanager
def launching() -> Iterator[torch.Tensor]:
    """Yield the tensor to launch on: on the GPU, else with Triton's launch path and no device."""
    if torch.cuda.is_available():
        yield torch.zeros(64, device="cuda")
        return
    with triton_adapter.offline_driver("cuda:90"), triton_adapter.intercept_compiles(_no_operation):
        yield torch.zeros(64)


def _no_operation(*_arguments: Any) -> NoOperation:
    return NoOperation()


def launch_us(x: torch.Tensor) -> float:
    """Return the mean host time of a warm launch, in microseconds."""
    begun = time.perf_counter()
    for _ in range(LAUNCHES):
        nothing_kernel[(1,)](x, 17, 2.0, BLOCK=64)
    return (time.perf_counter() - begun) / LAUNCHES * 1e6


def measure() -> dict[str, Any]:
    """Return the medians and the ratios."""
    plain, tracked, again = [], [], []
    with launching() as x:
        nothing_kernel[(1,)](x, 17, 2.0, BLOCK=64)
        for _ in range(ROUNDS):
            _round(plain, x)
            with recompile_tracker(nothing_kernel, allow=0):
                _round(tracked, x)
            _round(again, x)
    return {
        "plain_us": statistics.median(plain),
        "tracked_us": statistics.median(tracked),
        "ratio": statistics.median([one / other for one, other in zip(tracked, plain, strict=True)]),
        "noise_ratio": statistics.median([one / other for one, other in zip(again, plain, strict=True)]),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "none: launch path only",
        "versions": versions(),
    }


def _round(times: list[float], x: torch.Tensor, launch: Callable[[torch.Tensor], float] = launch_us) -> None:
    times.append(launch(x))
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    """Print the result, and write it where --json says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = measure()
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

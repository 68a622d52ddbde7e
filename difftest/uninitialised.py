"""Poison for memory that a launch function allocates without filling it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from difftest.poison import poison_

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}


@contextlib.contextmanager
def poisoned_allocations() -> Iterator[list[Any]]:
    """Fill every `torch.empty` and its relatives made inside with poison; yields the list of the tensors so made.

    The launch function runs unmodified: the allocation is seen where torch calls its functions. `torch.empty` promises nothing about the
    contents, so a right launcher cannot notice.
    """
    from torch.overrides import TorchFunctionMode  # noqa: PLC0415 - loading difftest must not load torch

    made: list[Any] = []

    class Poisoning(TorchFunctionMode):
        def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if getattr(func, "__name__", "") in _ALLOCATIONS:
                made.append(poison_(result))
            return result

    with Poisoning():
        yield made


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Run our own torch calls inside a launch without `poisoned_allocations` looking at each."""
    import torch  # noqa: PLC0415

    with torch._C.DisableTorchFunction():  # noqa: SLF001 - torch documents the name
        yield

"""Poison for memory that a launch function allocates without filling it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from difftest.poison import poison_

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")


@contextlib.contextmanager
def poisoned_allocations() -> Iterator[list[Any]]:
    """Fill every `torch.empty` and its relatives made inside with poison; yields the list of the tensors so made.

    The launch function runs unmodified: the allocation is seen where torch dispatches it. `torch.empty` promises nothing about the contents, so
    a right launcher cannot notice.
    """
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415 - loading difftest must not load torch

    made: list[Any] = []

    class Poisoning(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func.overloadpacket._qualified_op_name.removeprefix("aten::") in _ALLOCATIONS:  # noqa: SLF001 - the only spelling of the name
                made.append(poison_(result))
            return result

    with Poisoning():  # type: ignore[no-untyped-call]
        yield made

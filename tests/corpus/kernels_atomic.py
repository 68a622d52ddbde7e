"""Atomics: integer and exactly representable float sums, extremes, bits, exchange and compare-and-swap.

Where programs or lanes meet at one address only the final contents are recorded: the old values depend on the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from corpus.entry import Entry, Output, empty, zeros
from corpus.values import exact, integers

if TYPE_CHECKING:
    import torch

BLOCK, PROGRAMS, SLOTS = 64, 4, 16
COUNT = BLOCK * PROGRAMS


@triton.jit
def add(pointers, x, mask):
    return tl.atomic_add(pointers, x, mask=mask)


@triton.jit
def maximum(pointers, x, mask):
    return tl.atomic_max(pointers, x, mask=mask)


@triton.jit
def minimum(pointers, x, mask):
    return tl.atomic_min(pointers, x, mask=mask)


@triton.jit
def bit_and(pointers, x, mask):
    return tl.atomic_and(pointers, x, mask=mask)


@triton.jit
def bit_or(pointers, x, mask):
    return tl.atomic_or(pointers, x, mask=mask)


@triton.jit
def bit_xor(pointers, x, mask):
    return tl.atomic_xor(pointers, x, mask=mask)


@triton.jit
def exchange(pointers, x, mask):
    return tl.atomic_xchg(pointers, x, mask=mask)


@triton.jit
def contended_kernel(index_ptr, x_ptr, y_ptr, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    slot = tl.load(index_ptr + offsets, mask=mask, other=0)
    FN(y_ptr + slot, tl.load(x_ptr + offsets, mask=mask, other=0), mask)


@triton.jit
def apart_kernel(x_ptr, y_ptr, old_ptr, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    old = FN(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask, other=0), mask)
    tl.store(old_ptr + offsets, old, mask=mask)


@triton.jit
def swap_kernel(expected_ptr, x_ptr, y_ptr, old_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = tl.atomic_cas(y_ptr + offsets, tl.load(expected_ptr + offsets), tl.load(x_ptr + offsets))
    tl.store(old_ptr + offsets, old)


@triton.jit
def counter_kernel(y_ptr, seen_ptr, sem: tl.constexpr, scope: tl.constexpr):
    ticket = tl.atomic_add(y_ptr, 1, sem=sem, scope=scope)
    tl.atomic_add(seen_ptr + ticket, 1)
    tl.atomic_max(y_ptr + 1, tl.program_id(0) * 3)
    tl.atomic_cas(y_ptr + 2, 0, 77)


@triton.jit
def lock_kernel(lock_ptr, y_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr, volatile=True) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


FUNCTIONS = {
    "add": (add, "int32 int64 uint32 float16 bfloat16 float32 float64"),
    "max": (maximum, "int32 int64 uint32 float32"),
    "min": (minimum, "int32 int64 uint32 float32"),
    "and": (bit_and, "int32 int64"),
    "or": (bit_or, "int32 uint32"),
    "xor": (bit_xor, "int32 int64"),
    "exchange": (exchange, "int32 int64 float32"),
}


def _inputs(dtype: str, salt: int, *, half: bool = False) -> torch.Tensor:
    """Return whole numbers of which any sum of 256 is exact in the dtype (bfloat16: of 16)."""
    narrow = dtype in ("bfloat16", "float16") or half
    low = 0 if dtype.startswith("u") else -3 if narrow else -1000
    return integers(dtype, COUNT, salt, low=low, high=4 if narrow else 1000)


def _contended(name: str, fn: Any, dtype: str) -> Entry:
    slots = integers("int32", COUNT, 3, low=0, high=SLOTS)
    x = _inputs(dtype, 4)
    initial = integers(dtype, SLOTS, 5, low=1, high=9)
    return Entry(
        name=f"atomic_{name}_contended_{dtype}",
        kernel=contended_kernel,
        arguments=lambda: (slots, x, Output(initial.clone()), COUNT - 7),
        constexprs={"FN": fn, "BLOCK": BLOCK},
        covers=("tt.atomic_rmw",),
    )


def _apart(name: str, fn: Any, dtype: str) -> Entry:
    x, initial = _inputs(dtype, 6), _inputs(dtype, 7)
    return Entry(
        name=f"atomic_{name}_{dtype}",
        kernel=apart_kernel,
        arguments=lambda: (x, Output(initial.clone()), empty(dtype, COUNT), COUNT - 7),
        constexprs={"FN": fn, "BLOCK": BLOCK},
        covers=("tt.atomic_rmw",),
    )


def _swaps(dtype: str) -> Entry:
    present, x = integers(dtype, COUNT, 8, low=0, high=3), integers(dtype, COUNT, 9, low=10, high=90)
    return Entry(
        name=f"atomic_cas_{dtype}",
        kernel=swap_kernel,
        arguments=lambda: (exact(dtype, [1] * COUNT), x, Output(present.clone()), empty(dtype, COUNT)),
        constexprs={"BLOCK": BLOCK},
        covers=("tt.atomic_cas",),
    )


def _scalars() -> list[Entry]:
    made = [
        Entry(
            name=f"atomic_counter_{sem}_{scope}",
            kernel=counter_kernel,
            grid=(8,),
            arguments=lambda: (zeros("int32", 3), zeros("int32", 8)),
            constexprs={"sem": sem, "scope": scope},
            covers=("tt.atomic_rmw", "tt.atomic_cas"),
        )
        for sem, scope in (("acq_rel", "gpu"), ("relaxed", "sys"))
    ]
    lock = Entry(name="atomic_lock", kernel=lock_kernel, grid=(4,), arguments=lambda: (zeros("int32", 1), zeros("int32", 1)),
                 covers=("tt.atomic_cas", "scf.while"), risky=True)  # fmt: skip
    return [*made, lock]


def _functions() -> list[Entry]:
    made = []
    for name, (fn, dtypes) in FUNCTIONS.items():
        for dtype in dtypes.split():
            made.append(_apart(name, fn, dtype))
            if name != "exchange":
                made.append(_contended(name, fn, dtype))
    return made


ENTRIES = _functions() + [_swaps(dtype) for dtype in ("int32", "int64", "float32")] + _scalars()

"""Elementwise kernels whose operation is a jit function given as a constexpr, and the entries made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from corpus.entry import Entry, empty
from corpus.values import BLOCK, COUNT

if TYPE_CHECKING:
    import torch


@triton.jit
def unary_kernel(x_ptr, y_ptr, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, FN(x), mask=mask)


@triton.jit
def binary_kernel(x_ptr, y_ptr, z_ptr, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, FN(x, y), mask=mask)


@triton.jit
def ternary_kernel(x_ptr, y_ptr, z_ptr, w_ptr, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    z = tl.load(z_ptr + offsets, mask=mask)
    tl.store(w_ptr + offsets, FN(x, y, z), mask=mask)


KERNELS = {1: unary_kernel, 2: binary_kernel, 3: ternary_kernel}


def elementwise(name: str, function: Any, inputs: tuple[torch.Tensor, ...], out: str, **fields: Any) -> Entry:
    """Return the entry that applies `function` to `COUNT` elements of the inputs and stores dtype `out`."""
    return Entry(
        name=name,
        kernel=KERNELS[len(inputs)],
        arguments=lambda: (*inputs, empty(out, COUNT + 12), COUNT),
        constexprs={"FN": function, "BLOCK": BLOCK},
        **fields,
    )

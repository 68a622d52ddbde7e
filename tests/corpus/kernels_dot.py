"""Matrix products. Small whole numbers make every partial sum exact, so that the order of the additions does not show."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from corpus.agreement import Policy, Ulp
from corpus.entry import Entry, empty
from corpus.values import floats, integers

M, N, K = 16, 16, 32


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, PRECISION: tl.constexpr, OUT: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    pid = tl.program_id(0)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + pid * M * K + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(c_ptr + pid * M * N + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision=PRECISION, out_dtype=OUT))


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    pid = tl.program_id(0)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.full((M, N), 2.0, dtype=tl.float32)
    for start in range(0, inner, K):
        a = tl.load(a_ptr + (pid * M + m[:, None]) * inner + start + k[None, :], mask=start + k[None, :] < inner, other=0.0)
        b = tl.load(b_ptr + (start + k[:, None]) * N + n[None, :], mask=start + k[:, None] < inner, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + pid * M * N + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty))


@triton.jit
def batched_kernel(a_ptr, b_ptr, c_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.program_id(0) * B + tl.arange(0, B)[:, None, None]
    m, n = tl.arange(0, M), tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + batch * M * K + m[None, :, None] * K + k[None, None, :])
    b = tl.load(b_ptr + batch * K * N + k[None, :, None] * N + n[None, None, :])
    tl.store(c_ptr + batch * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(a, b))


@triton.jit
def multiply_sum_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    pid = tl.program_id(0)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + pid * M * K + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(c_ptr + pid * M * N + m[:, None] * N + n[None, :], tl.sum(a[:, :, None] * b[None, :, :], axis=1))


SHAPE = {"M": M, "N": N, "K": K}
ACCUMULATION = Ulp(32, "32 positive products are accumulated in an order and width of the tensor core's own, truncating")


def _dot(name: str, a: torch.Tensor, b: torch.Tensor, out: str, *, precision: str = "ieee", policy: Policy | None = None) -> Entry:
    judged: dict[str, Any] = {} if policy is None else {"policy": policy}
    to = {"float32": tl.float32, "float16": tl.float16, "int32": tl.int32, "float64": tl.float64}[out]
    return Entry(
        name=name,
        kernel=dot_kernel,
        grid=(2,),
        arguments=lambda: (a, b, empty(out, 2, M, N)),
        constexprs={"PRECISION": precision, "OUT": to, **SHAPE},
        covers=("tt.dot",),
        **judged,
    )


def _whole(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    return integers(dtype, 2 * M * K, 3, low=-7, high=8), integers(dtype, K * N, 4, low=-7, high=8)


def _fractions(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    return floats(dtype, 2 * M * K, 5, span=2, signed=False), floats(dtype, K * N, 6, span=2, signed=False)


def _selection() -> torch.Tensor:
    """Return a matrix with a single 1 in each column: products and sums are exact, what shows is how the other operand was rounded."""
    chosen = torch.zeros(K, N, dtype=torch.float32)
    chosen[(torch.arange(N) * 5) % K, torch.arange(N)] = 1.0
    return chosen


def _entries() -> list[Entry]:
    made = [_dot(f"dot_{dtype}", *_whole(dtype), "float32") for dtype in ("float16", "bfloat16", "float32")]
    made += [_dot(f"dot_{p}_float32", *_whole("float32"), "float32", precision=p) for p in ("tf32", "tf32x3")]
    made.append(_dot("dot_float64", *_whole("float64"), "float64"))
    whole = integers("int8", 2 * M * K, 7, low=-128, high=128), integers("int8", K * N, 8, low=-128, high=128)
    made.append(_dot("dot_int8", *whole, "int32"))
    small = integers("float16", 2 * M * K, 9, low=-2, high=3), integers("float16", K * N, 10, low=-2, high=3)
    made.append(_dot("dot_float16_in_float16", *small, "float16"))
    made += [_dot(f"dot_order_{d}", *_fractions(d), "float32", policy=ACCUMULATION) for d in ("float16", "bfloat16", "float32")]
    made.append(_dot("dot_selection_ieee", floats("float32", 2 * M * K, 11), _selection(), "float32"))
    made.append(_dot("dot_selection_tf32", floats("float32", 2 * M * K, 11), _selection(), "float32", precision="tf32"))
    return made


def _loops() -> list[Entry]:
    a, b = integers("float16", 2 * M * 80, 12, low=-7, high=8), integers("float16", 80 * N, 13, low=-7, high=8)
    made = [
        Entry(name=f"matmul_to_{out}", kernel=matmul_kernel, grid=(2,), constexprs=SHAPE, covers=("tt.dot", "scf.for"),
              arguments=lambda out=out: (a, b, empty(out, 2, M, N), 80))
        for out in ("float32", "bfloat16")
    ]  # fmt: skip
    batch = integers("float16", 4 * M * K, 14, low=-7, high=8), integers("float16", 4 * K * N, 15, low=-7, high=8)
    made.append(Entry(name="dot_batched_float16", kernel=batched_kernel, grid=(2,), constexprs={"B": 2, **SHAPE}, covers=("tt.dot",),
                      arguments=lambda: (*batch, empty("float32", 4, M, N))))  # fmt: skip
    # Triton turns a sum of a broadcast product into a dot
    made.append(Entry(name="multiply_sum_float32", kernel=multiply_sum_kernel, grid=(2,), constexprs=SHAPE, covers=("tt.dot",),
                      arguments=lambda: (*_whole("float32"), empty("float32", 2, M, N))))  # fmt: skip
    return made


ENTRIES = _entries() + _loops()

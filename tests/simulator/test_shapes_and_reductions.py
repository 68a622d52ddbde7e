from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

pytestmark = pytest.mark.usefixtures("simulator")


@triton.jit
def moved(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * N + j)
    pairs = tl.reshape(tl.trans(x), (N, M // 2, 2))
    first, second = tl.split(pairs)
    again = tl.reshape(tl.join(second, first), (N, M))
    tl.store(out_ptr + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], again)


def test_reshape_transpose_split_and_join_move_elements():
    x = torch.arange(32.0).reshape(8, 4)
    out = torch.empty(4, 8)
    moved[(1,)](x, out, M=8, N=4)
    assert torch.equal(out, x.T.reshape(4, 4, 2).flip(-1).reshape(4, 8))


@triton.jit
def joined_splats(out_ptr, a, b, N: tl.constexpr):
    p = tl.program_id(0)
    joined = tl.join(tl.full((N,), a, tl.float32), tl.full((N,), b, tl.float32) + p)
    tl.store(out_ptr + p * 2 * N + tl.arange(0, 2 * N), tl.reshape(joined, (2 * N,)))


def test_values_that_are_the_same_along_an_axis_fill_it_where_order_counts():
    out = torch.empty(3, 8)
    joined_splats[(3,)](out, 1.5, 2.5, N=4)
    assert torch.equal(out, torch.tensor([[1.5, 2.5 + p] * 4 for p in range(3)]))


@triton.jit
def softmax_kernel(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + c, mask=c < n_cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * stride + c, e / tl.sum(e, axis=0), mask=c < n_cols)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_softmax_agrees_with_torch(dtype):
    x = torch.randn(37, 100, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = torch.empty_like(x)
    softmax_kernel[(37,)](x, y, 100, 100, BLOCK=128)
    torch.testing.assert_close(y.double(), torch.softmax(x.double(), 1), rtol=2 * torch.finfo(dtype).eps, atol=1e-7)


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr, RECIPROCAL: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    mask = c < n_cols
    x = tl.load(x_ptr + row * n_cols + c, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + c, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x * x, axis=0) / n_cols + eps
    scaled = x * tl.rsqrt(mean) if RECIPROCAL else x / tl.sqrt(mean)
    tl.store(y_ptr + row * n_cols + c, (scaled * w).to(y_ptr.dtype.element_ty), mask=mask)


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rms_norm_agrees_with_torch(dtype, reciprocal):
    generator = torch.Generator().manual_seed(1)
    x, w = torch.randn(19, 96, generator=generator).to(dtype), torch.rand(96, generator=generator).to(dtype)
    y = torch.empty_like(x)
    rms_norm_kernel[(19,)](x, w, y, 96, 1e-6, BLOCK=128, RECIPROCAL=reciprocal)
    expected = torch.nn.functional.rms_norm(x.double(), (96,), w.double(), 1e-6)
    torch.testing.assert_close(y.double(), expected, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


@triton.jit
def reduced(x_ptr, out_ptr, where_ptr, scan_ptr, back_ptr, M: tl.constexpr, N: tl.constexpr):
    p = tl.program_id(0)
    at = p * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + p * N + tl.arange(0, N), tl.sum(x, axis=0))
    tl.store(where_ptr + p * M + tl.arange(0, M), tl.argmax(x, axis=1))
    tl.store(scan_ptr + at, tl.cumsum(x, axis=1))
    tl.store(back_ptr + at, tl.cumsum(x, axis=0, reverse=True))


def test_sum_argmax_and_cumulative_sums_along_each_axis():
    x = torch.randint(-5, 6, (3, 8, 16), generator=torch.Generator().manual_seed(2), dtype=torch.int32)
    sums, where = torch.empty(3, 16, dtype=torch.int32), torch.empty(3, 8, dtype=torch.int32)
    scans, back = torch.empty_like(x), torch.empty_like(x)
    reduced[(3,)](x, sums, where, scans, back, M=8, N=16)
    assert torch.equal(sums, x.sum(1, dtype=torch.int32))
    assert where.tolist() == [[row.index(max(row)) for row in rows] for rows in x.tolist()]  # the first of equal ones
    assert torch.equal(scans, x.cumsum(2, dtype=torch.int32))
    assert torch.equal(back, x.flip(1).cumsum(1, dtype=torch.int32).flip(1))


@triton.jit
def _first_nonzero(a, b):
    return tl.where(a != 0, a, b)


@triton.jit
def not_commutative(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, N)), 0, _first_nonzero))


def test_a_function_that_is_only_associative_keeps_the_order():
    x = torch.tensor([0, 0, 0, 7, 0, 3, 9, 0], dtype=torch.int32)
    out = torch.zeros(1, dtype=torch.int32)
    not_commutative[(1,)](x, out, N=8)
    assert out.item() == 7


@triton.jit
def bfloat16_sum(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), axis=0))


def test_a_bfloat16_sum_rounds_at_every_step():
    x = torch.tensor([256.0, 0.0, 1.0, 0.0], dtype=torch.bfloat16)
    out = torch.zeros(1, dtype=torch.bfloat16)
    bfloat16_sum[(1,)](x, out, N=4)
    assert out.item() == 256.0  # 257 is a tie


@triton.jit
def counted(counts_ptr, old_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(old_ptr + p * N + i, tl.atomic_add(counts_ptr + i % 2, 1))


@triton.jit
def gathered_on_one(count_ptr, last_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.atomic_add(count_ptr + lanes * 0, 1)
    tl.store(last_ptr + tl.zeros((N,), tl.int32), lanes)


def test_lanes_that_share_an_address_all_act():
    count, last = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    gathered_on_one[(3,)](count, last, N=16)
    assert count.item() == 48
    assert last.item() == 15


def test_atomics_apply_once_for_every_lane_and_instance():
    counts, old = torch.zeros(2, dtype=torch.int32), torch.zeros(5 * 4, dtype=torch.int32)
    counted[(5,)](counts, old, N=4)
    assert counts.tolist() == [10, 10]
    assert sorted(old.tolist()) == sorted([*range(10), *range(10)])

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from difftest.errors import LaunchFailure


@triton.jit
def ragged_sum(x_ptr, starts_ptr, out_ptr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    first = tl.load(starts_ptr + p)
    last = tl.load(starts_ptr + p + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(first, last, BLOCK):
        i = at + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + i, mask=i < last, other=0.0)
    tl.store(out_ptr + p, tl.sum(total, axis=0))


def test_each_instance_leaves_a_loop_at_its_own_bound(simulator):
    starts = torch.tensor([0, 0, 3, 40, 41, 41, 77], dtype=torch.int32)
    x = torch.arange(77.0)
    out = torch.empty(6)
    ragged_sum[(6,)](x, starts, out, BLOCK=8)
    assert out.tolist() == [x[a:b].sum().item() for a, b in zip(starts.tolist(), starts.tolist()[1:], strict=False)]
    assert simulator.shows_fusion is False


@triton.jit
def doubled(times_ptr, out_ptr):
    p = tl.program_id(0)
    x = 0
    for index in range(tl.load(times_ptr + p)):
        x = 2 * x + index
    tl.store(out_ptr + p, x)


@pytest.mark.usefixtures("simulator")
def test_what_a_loop_carries_stays_as_it_was_when_the_instance_left():
    out = torch.full((5,), 99, dtype=torch.int32)
    doubled[(5,)](torch.tensor([3, 0, 5, 1, -2], dtype=torch.int32), out)
    assert out.tolist() == [4, 0, 26, 0, 0]


@triton.jit
def collatz(x_ptr, out_ptr):
    p = tl.program_id(0)
    x = tl.load(x_ptr + p)
    steps = 0
    while x > 1:
        if x % 2 == 0:  # noqa: SIM108 - scf.if is what is tested
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    tl.store(out_ptr + p, steps)


def collatz_steps(n):
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


@pytest.mark.usefixtures("simulator")
def test_while_and_if_diverge_by_instance():
    x = torch.tensor([1, 2, 3, 27, 0, 97, 6], dtype=torch.int32)
    out = torch.empty(7, dtype=torch.int32)
    collatz[(7,)](x, out)
    assert out.tolist() == [collatz_steps(n) for n in x.tolist()]


@triton.jit
def early(x_ptr, out_ptr, n):
    p = tl.program_id(0)
    if p >= n:
        return
    x = tl.load(x_ptr + p)
    if x < 0:
        tl.store(out_ptr + p, -1)
        return
    tl.store(out_ptr + p, x * 2)


@pytest.mark.usefixtures("simulator")
def test_an_instance_that_returned_early_touches_nothing_more():
    x = torch.tensor([3, -4, 5], dtype=torch.int32)
    out = torch.full((3,), 99, dtype=torch.int32)
    early[(8,)](x, out, 3)  # instances 3 to 7 would be out of bounds
    assert out.tolist() == [6, -1, 10]


@triton.jit(noinline=True)
def _clipped(x, limit):
    if x > limit:
        return limit
    return x + 1


@triton.jit
def calls(x_ptr, out_ptr, limit):
    p = tl.program_id(0)
    tl.store(out_ptr + p, _clipped(tl.load(x_ptr + p), limit))


@pytest.mark.usefixtures("simulator")
def test_a_called_function_returns_from_several_places():
    x = torch.tensor([1, 5, 9, 2], dtype=torch.int32)
    out = torch.empty_like(x)
    calls[(4,)](x, out, 5)
    assert out.tolist() == [2, 6, 5, 3]


@triton.jit
def ping_pong(a_ptr, b_ptr, steps, N: tl.constexpr):
    i = tl.arange(0, N)
    for _ in range(steps):
        tl.store(b_ptr + i, tl.load(a_ptr + i) + 1)
        keep = a_ptr
        a_ptr = b_ptr
        b_ptr = keep


@pytest.mark.usefixtures("simulator")
def test_pointers_may_be_carried_and_swapped_by_a_loop():
    a, b = torch.zeros(4), torch.zeros(4)
    ping_pong[(1,)](a, b, 5, N=4)
    assert (a.tolist(), b.tolist()) == ([4.0] * 4, [5.0] * 4)


@triton.jit
def selected(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(tl.where(i % 2 == 0, a_ptr, b_ptr) + i))


@pytest.mark.usefixtures("simulator")
def test_a_vector_of_pointers_may_mix_tensors():
    a, b, out = torch.arange(8.0), -torch.arange(8.0), torch.zeros(8)
    selected[(1,)](a, b, out, N=8)
    assert out.tolist() == [0.0, -1.0, 2.0, -3.0, 4.0, -5.0, 6.0, -7.0]


@triton.jit
def coordinates(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out_ptr + at, 100 * x + 10 * y + z)


@pytest.mark.usefixtures("simulator")
def test_three_grid_axes_and_several_chunks():
    out = torch.full((4, 3, 70), -1, dtype=torch.int32)
    coordinates[(70, 3, 4)](out)
    assert out.tolist() == [[[100 * x + 10 * y + z for x in range(70)] for y in range(3)] for z in range(4)]


@triton.jit
def endless(out_ptr, x):
    while x > 0:
        x += 1
        x = tl.maximum(x, 1)
    tl.store(out_ptr, x)


def test_a_loop_that_does_not_end_is_stopped_with_its_line(simulator):
    simulator.max_loop_rounds = 50
    line = r"tests/simulator/test_control_flow.py:\d+: "
    with pytest.raises(LaunchFailure, match=r"a loop still ran after 50 rounds, program \(0, 0, 0\), at " + line):
        endless[(1,)](torch.zeros(1, dtype=torch.int32), 5)


@triton.jit
def optional(x_ptr, extra_ptr, out_ptr, one, pair, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i * one) * pair[0] + pair[1]
    if extra_ptr is not None:
        x += tl.load(extra_ptr + i)
    tl.store(out_ptr + i, x)


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("with_extra", [True, False])
def test_arguments_that_became_constants_and_tuples_are_matched_by_name(with_extra):
    x, extra, out = torch.arange(4.0), torch.full((4,), 10.0), torch.empty(4)
    optional[(1,)](x, extra if with_extra else None, out, 1, (2.0, 3), N=4)
    assert torch.equal(out, x * 2 + 3 + (10 if with_extra else 0))

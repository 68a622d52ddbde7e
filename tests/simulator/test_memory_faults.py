from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from difftest.errors import LaunchFailure, NeverWritten, OutOfBounds, Unsupported
from difftest.poison import poison_

FILE = "tests/simulator/test_memory_faults.py"


@triton.jit
def copied(x_ptr, y_ptr, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n if MASKED else i < 1000
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, x, mask=mask)


def line_of(text):
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


def test_a_store_past_the_end_says_where_and_who(simulator):
    x, y = torch.zeros(10, 10), torch.zeros(10, 10)
    with pytest.raises(OutOfBounds) as caught:
        copied[(4,)](x, y, 100, BLOCK=32, MASKED=False)
    source = "tl.store(y_ptr + i, x, mask=mask)"
    assert str(caught.value) == (
        f"store outside `y_ptr`: element 100 of 100 (shape (10, 10)), program (3, 0, 0), lane 4, at {FILE}:{line_of(source)}: `{source}`"
    )
    assert simulator.device.type == "cpu"


@pytest.mark.usefixtures("simulator")
def test_the_same_kernel_with_its_mask_is_right():
    x, y = torch.arange(100.0), torch.zeros(100)
    copied[(4,)](x, y, 100, BLOCK=32, MASKED=True)
    assert torch.equal(x, y)


@triton.jit
def rows(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + c, mask=c < n_cols, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + c, x)


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_a_gap_between_the_rows_of_a_view_is_outside(dtype):
    room = torch.arange(40).to(dtype).reshape(4, 10)
    view, y = room[:, 1:7], torch.zeros(4, 8, dtype=dtype)
    rows[(4,)](view, y, 10, 6, BLOCK=8)
    assert torch.equal(y[:, :6], view)
    gap = "load outside `x_ptr`: element 6 of 36, in a gap of the view (shape (4, 6), strides (10, 1)), program (0, 0, 0), lane 6, at "
    with pytest.raises(OutOfBounds, match=re.escape(gap)):
        rows[(4,)](view, y, 10, 7, BLOCK=8)
    with pytest.raises(OutOfBounds, match=re.escape(gap)):
        rows[(1,)](view, y, 10, 8, BLOCK=8)  # with no lane masked off, and none past the last element


@pytest.mark.usefixtures("simulator")
def test_a_neighbour_in_the_same_storage_is_outside():
    room = torch.zeros(64)
    first, second = room[:32], room[32:]
    with pytest.raises(OutOfBounds, match="element 32 of 32"):
        copied[(2,)](first, second, 33, BLOCK=32, MASKED=True)
    with pytest.raises(OutOfBounds, match="element -1 of 32"):
        negative[(1,)](second)


@triton.jit
def negative(x_ptr):
    tl.store(x_ptr - 1, 1.0)


@pytest.mark.usefixtures("simulator")
def test_an_empty_tensor_has_no_element_but_may_be_masked_off():
    empty = torch.empty(0)
    copied[(1,)](empty, empty, 0, BLOCK=32, MASKED=True)
    with pytest.raises(OutOfBounds, match=r"element 0 of 0 \(shape \(0,\)\)"):
        copied[(1,)](empty, empty, 3, BLOCK=32, MASKED=True)


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int16, torch.int32, torch.int64], ids=str
)
def test_a_load_of_memory_that_nobody_wrote_is_found(dtype):
    x, y = torch.ones(64, dtype=dtype), torch.zeros(64, dtype=dtype)
    poison_(x[35:36])
    copied[(2,)](x, y, 35, BLOCK=32, MASKED=True)  # the lane that would read it is masked off
    with pytest.raises(NeverWritten) as caught:
        copied[(2,)](x, y, 40, BLOCK=32, MASKED=True)
    source = "x = tl.load(x_ptr + i, mask=i < n)"
    assert str(caught.value) == (
        "load of `x_ptr` reads memory that nobody wrote: element 35 of 64 (shape (64,)), program (1, 0, 0), lane 3, "
        f"at {FILE}:{line_of(source)}: `{source}`"
    )


@pytest.mark.usefixtures("simulator")
def test_bytes_that_equal_their_poison_prove_nothing():
    x, y = torch.full((32,), 0x5A, dtype=torch.int8), torch.zeros(32, dtype=torch.int8)
    copied[(1,)](x, y, 32, BLOCK=32, MASKED=True)
    assert torch.equal(x, y)


@pytest.mark.usefixtures("simulator")
def test_every_bit_pattern_of_a_narrow_float_survives_a_copy():
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits[bits != 0x7FA5].view(torch.bfloat16)
    y = torch.zeros_like(x)
    copied[(2048,)](x, y, x.numel(), BLOCK=32, MASKED=True)
    assert torch.equal(x.view(torch.int16)[:1000], y.view(torch.int16)[:1000])
    with pytest.raises(OutOfBounds):
        copied[(2048,)](x, y, x.numel() + 1, BLOCK=32, MASKED=True)


@triton.jit
def wrapping(x_ptr, page, PAGE_SIZE: tl.constexpr, WIDE: tl.constexpr):
    offset = page.to(tl.int64) * PAGE_SIZE if WIDE else page * PAGE_SIZE
    tl.store(x_ptr + offset, 1.0)


@pytest.mark.usefixtures("simulator")
def test_an_offset_that_wraps_at_32_bits_lands_before_the_tensor():
    x = torch.zeros(64)
    with pytest.raises(OutOfBounds, match=f"element {40000 * 65536 - 2**32} of 64"):
        wrapping[(1,)](x, 40000, PAGE_SIZE=65536, WIDE=False)
    with pytest.raises(OutOfBounds, match=f"element {40000 * 65536} of 64"):
        wrapping[(1,)](x, 40000, PAGE_SIZE=65536, WIDE=True)


@triton.jit
def helper_load(ptr, i):
    return tl.load(ptr + i)


@triton.jit
def by_helper(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, helper_load(x_ptr, i))


@pytest.mark.usefixtures("simulator")
def test_a_fault_in_an_inlined_helper_is_at_the_helpers_line():
    source = "return tl.load(ptr + i)"
    with pytest.raises(OutOfBounds, match=re.escape(f"at {FILE}:{line_of(source)}: `{source}`")):
        by_helper[(1,)](torch.zeros(7), torch.zeros(8), N=8)


@pytest.mark.usefixtures("simulator")
def test_a_masked_off_load_without_other_gives_zero():
    x, y = torch.ones(8), torch.full((8,), 5.0)
    rows_without_other[(1,)](x, y, N=8)
    assert y.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@triton.jit
def rows_without_other(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < 3))


@triton.jit
def asserting(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_assert(tl.load(x_ptr + i) > 0, "must be positive")


@pytest.mark.usefixtures("simulator")
def test_a_device_assertion_that_fails_names_the_lane():
    asserting[(1,)](torch.ones(4), N=4, debug=True)
    with pytest.raises(LaunchFailure, match=r"assertion failed: must be positive, program \(0, 0, 0\), lane 2, at "):
        asserting[(1,)](torch.tensor([1.0, 1.0, -1.0, 1.0]), N=4, debug=True)


@pytest.mark.usefixtures("simulator")
def test_a_tensor_that_is_not_on_the_cpu_is_refused():
    with pytest.raises(Unsupported, match="`x_ptr` is Tensor on meta: the simulator takes CPU tensors"):
        asserting[(1,)](torch.ones(4, device="meta"), N=4, debug=True)

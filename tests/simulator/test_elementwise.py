from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 1e-40, 3e38, -7.25, 65504.0, 2.0**-24]


@triton.jit
def arithmetic(x_ptr, y_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):  # noqa: C901 - one branch is compiled
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    if OP == "add":
        r = x + y
    elif OP == "sub":
        r = x - y
    elif OP == "mul":
        r = x * y
    elif OP == "div":
        r = (x / y).to(x.dtype)
    elif OP == "maximum":
        r = tl.maximum(x, y)
    elif OP == "minimum":
        r = tl.minimum(x, y)
    elif OP == "floordiv":
        r = x // y
    elif OP == "rem":
        r = x % y
    elif OP == "and":
        r = x & y
    elif OP == "xor":
        r = x ^ y
    elif OP == "shl":
        r = x << y
    elif OP == "shr":
        r = x >> y
    tl.store(out_ptr + i, r)


def binary(x, y, op):
    out = torch.empty_like(x)
    arithmetic[(1,)](x, y, out, N=x.numel(), OP=op)
    return out


def grid_of(values, dtype):
    pairs = [(a, b) for a in values for b in values][:128]
    pairs += [(1.0, 1.0)] * (128 - len(pairs))
    left, right = zip(*pairs, strict=True)
    return torch.tensor(left).to(dtype), torch.tensor(right).to(dtype)


def same(actual, expected):
    nan = torch.isnan(expected)
    assert torch.equal(torch.isnan(actual), nan)
    compared = ~nan.repeat_interleave(actual.itemsize)
    assert torch.equal(actual.view(torch.uint8)[compared], expected.view(torch.uint8)[compared])


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("op", "function"), [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul)])
def test_float_arithmetic_rounds_once_in_the_element_type(dtype, op, function):
    special = grid_of(SPECIAL, dtype)
    same(binary(*special, op), function(*special))
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(4096, generator=generator).to(dtype) for _ in range(2))
    same(binary(x, y, op), function(x, y))


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division_is_correctly_rounded(dtype):
    x, y = grid_of(SPECIAL, dtype)
    same(binary(x, y, "div"), torch.div(x, y))


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_nan_loses_against_a_number_in_maximum_and_minimum(dtype):
    x, y = grid_of([0.0, -0.0, float("nan"), 2.0, float("-inf")], dtype)
    larger, smaller = torch.fmax(x, y), torch.fmin(x, y)
    both_zero = (x == 0) & (y == 0)
    negative = torch.signbit(x) & torch.signbit(y)
    any_negative = torch.signbit(x) | torch.signbit(y)
    zero, minus = torch.zeros_like(x), -torch.zeros_like(x)
    same(binary(x, y, "maximum"), torch.where(both_zero, torch.where(negative, minus, zero), larger))
    same(binary(x, y, "minimum"), torch.where(both_zero, torch.where(any_negative, minus, zero), smaller))


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "and", "xor"])
def test_integers_wrap(dtype, op):
    limits = torch.iinfo(dtype)
    values = [limits.min, limits.max, -1, 0, 1, 2, 77]
    x = torch.tensor(values * 7 + [5] * 15, dtype=dtype)
    y = torch.tensor([v for v in values for _ in range(7)] + [3] * 15, dtype=dtype)
    function = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "and": torch.bitwise_and, "xor": torch.bitwise_xor}[op]
    assert torch.equal(binary(x, y, op), function(x, y))


@pytest.mark.usefixtures("simulator")
def test_integer_division_truncates_and_the_undefined_cases_are_those_of_an_h200():
    low = -(2**31)
    x = torch.tensor([7, -7, 7, -7, 5, low, low, 9], dtype=torch.int32)
    y = torch.tensor([2, 2, -2, -2, 0, -1, 3, -1], dtype=torch.int32)
    assert binary(x, y, "floordiv").tolist() == [3, -3, -3, 3, -1, low, -715827882, -9]
    assert binary(x, y, "rem").tolist() == [1, -1, 1, -1, 5, 0, -2, 0]


@pytest.mark.usefixtures("simulator")
def test_division_by_zero_of_64_bit_integers_below_2_to_the_32_is_that_of_32_bit_ones():
    x = torch.tensor([0, 7, 2**32 - 1, 2**32, -7, -(2**63), 2**63 - 1, 9], dtype=torch.int64)
    y = torch.tensor([0] * 7 + [-2], dtype=torch.int64)
    ones = 2**32 - 1
    assert binary(x, y, "floordiv").tolist() == [ones, ones, ones, -1, -1, -1, -1, -4]
    assert binary(x, y, "rem").tolist() == [*x.tolist()[:7], 1]
    unsigned = binary(x.view(torch.uint64), y.view(torch.uint64), "floordiv").view(torch.int64)
    assert unsigned.tolist() == [ones, ones, ones, -1, -1, -1, -1, 0]


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_float_remainder_is_that_of_nvidia(dtype):
    inf, nan = float("inf"), float("nan")
    cases = [(7.5, 2.0, 1.5), (-7.5, 2.0, -1.5), (7.5, -2.0, 1.5), (-4.0, 2.0, 0.0), (4.0, -2.0, 0.0), (-3.0, inf, -3.0), (inf, inf, inf)]
    cases += [(3.0, -inf, 3.0), (5.0, 0.0, nan), (inf, 2.0, nan), (nan, 2.0, nan), (2.0, nan, nan), (0.0, 3.0, 0.0), (-0.0, inf, -0.0)]
    cases += [(1.0, 1.0, 0.0)] * 2
    x, y, expected = (torch.tensor(column, dtype=torch.float64).to(dtype) for column in zip(*cases, strict=True))
    same(binary(x, y, "rem"), expected)


@pytest.mark.usefixtures("simulator")
def test_a_float32_remainder_of_a_large_quotient_is_inexact():
    x, y = torch.tensor([1e30, 1e10, 1e9, 1e9]), torch.tensor([3.0, 0.1, 0.3, 11.0])
    result = binary(x, y, "rem")
    assert result.tolist() == (x.double() - torch.trunc(x / y).double() * y.double()).float().tolist()
    assert (result.abs() > y).any()  # C's fmod is smaller than y
    assert (result < 0).any()  # and has the sign of x


@pytest.mark.usefixtures("simulator")
def test_a_shift_past_the_width_shifts_everything_out():
    x = torch.tensor([5, -5, 5, -5, 1, -1, 1, 3], dtype=torch.int32)
    y = torch.tensor([33, 33, -1, 40, 31, 31, 0, 1], dtype=torch.int32)
    assert binary(x, y, "shl").tolist() == [0, 0, 0, 0, -(2**31), -(2**31), 1, 6]
    assert binary(x, y, "shr").tolist() == [0, -1, 0, -1, 0, -1, 1, 1]


@triton.jit
def cast(x_ptr, out_ptr, N: tl.constexpr, THROUGH: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(THROUGH))


def casted(values, before, after, through):
    x = torch.tensor(values, dtype=before)
    out = torch.zeros(len(values), dtype=after)
    cast[(1,)](x, out, N=len(values), THROUGH=through)
    return out.tolist()


@pytest.mark.usefixtures("simulator")
def test_float_to_integer_saturates_as_on_an_h200():
    values = [1.9, -1.9, 3e9, -3e9, float("inf"), float("-inf"), float("nan"), 300.0]
    big = 2**31
    assert casted(values, torch.float32, torch.int32, tl.int32) == [1, -1, big - 1, -big, big - 1, -big, 0, 300]
    assert casted(values, torch.float32, torch.int64, tl.int64)[4:7] == [2**63 - 1, -(2**63), -(2**63)]
    to_bytes = casted([300.0, -300.0, 1e6, 3e9, -3e9, float("inf"), float("nan"), -1.5], torch.float32, torch.int8, tl.int8)
    assert to_bytes == [44, -44, -1, -1, 0, -1, 0, -1]
    nan = [float("nan")]
    small = (torch.int16, tl.int16), (torch.int32, tl.int32)
    assert [casted(nan, torch.float32, *types) for types in small] == [[0], [0]]
    assert [casted(nan, torch.float64, *types) for types in small] == [[-(2**15)], [-big]]
    assert [casted(nan, source, torch.uint32, tl.uint32) for source in (torch.float32, torch.float64)] == [[0], [big]]


@pytest.mark.usefixtures("simulator")
def test_integer_to_bfloat16_rounds_once():
    for top in (40, 60):  # by way of float32, or of float64, the last bit is lost and the tie rounds to even
        values = [2**top + 2 ** (top - 8) + 1, 257, 259, -257]
        assert casted(values, torch.int64, torch.bfloat16, tl.bfloat16) == [2.0**top + 2.0 ** (top - 7), 256.0, 260.0, -256.0]


@triton.jit
def transcendental(x_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):  # noqa: C901, PLR0912 - one branch is compiled
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OP == "exp":
        r = tl.exp(x)
    elif OP == "exp2":
        r = tl.exp2(x)
    elif OP == "log":
        r = tl.log(x)
    elif OP == "log2":
        r = tl.log2(x)
    elif OP == "sin":
        r = tl.sin(x)
    elif OP == "cos":
        r = tl.cos(x)
    elif OP == "sqrt":
        r = tl.sqrt(x)
    elif OP == "rsqrt":
        r = tl.rsqrt(x)
    elif OP == "erf":
        r = tl.erf(x)
    elif OP == "floor":
        r = tl.floor(x)
    elif OP == "ceil":
        r = tl.ceil(x)
    elif OP == "abs":
        r = tl.abs(x)
    elif OP == "sqrt_rn":
        r = tl.sqrt_rn(x)
    tl.store(out_ptr + i, r)


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("op", ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil", "abs", "sqrt_rn"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_math_is_within_two_ulp_of_the_true_value(op, dtype):
    if op == "sqrt_rn" and dtype == torch.float64:
        pytest.skip("tl.sqrt_rn takes float32 only")
    x = torch.linspace(0.01, 9.0, 256, dtype=dtype)
    out = torch.empty_like(x)
    transcendental[(1,)](x, out, N=256, OP=op)
    name = {"sqrt_rn": "sqrt"}.get(op, op)
    expected = getattr(torch, name)(x.double())
    assert ((out.double() - expected).abs() <= 4 * torch.finfo(dtype).eps * expected.abs().clamp(min=2**-3)).all()


@pytest.mark.usefixtures("simulator")
def test_subnormal_float32_are_zeros_to_roots_and_rounding_but_not_float64():
    inf, least = float("inf"), 2.0**-126
    x = torch.tensor([least * 0.75, -least * 0.75, least, -least])
    roots = {"sqrt": [0.0, -0.0, 2.0**-63, float("nan")], "rsqrt": [inf, -inf, 2.0**63, float("nan")]}
    expected = {**roots, "floor": [0.0, -0.0, 0.0, -1.0], "ceil": [0.0, -0.0, 1.0, -0.0]}
    for op, values in expected.items():
        out = torch.empty_like(x)
        transcendental[(1,)](x, out, N=4, OP=op)
        same(out, torch.tensor(values))
    x, out = x.double(), torch.empty(4, dtype=torch.float64)
    transcendental[(1,)](x * 2.0**-910, out, N=4, OP="ceil")
    same(out, torch.tensor([1.0, -0.0, 1.0, -0.0], dtype=torch.float64))


@triton.jit
def fused(a_ptr, b_ptr, c_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.fma(tl.load(a_ptr + i), tl.load(b_ptr + i), tl.load(c_ptr + i)))


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_fma_rounds_once(dtype):
    eps = torch.finfo(dtype).eps
    a = torch.tensor([1 + eps, 1 + eps, 3.0, 1 - eps], dtype=dtype)
    b = torch.tensor([1 + eps, 1 - eps, 5.0, 1 - eps], dtype=dtype)
    c = torch.tensor([-(1 + 2 * eps), -1.0, 7.0, -(1 - 2 * eps)], dtype=dtype)
    out = torch.empty_like(a)
    fused[(1,)](a, b, c, out, N=4)
    assert out.tolist() == [eps * eps, -eps * eps, 22.0, eps * eps]


@triton.jit
def compared(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    code = (x == y).to(tl.int32) + 2 * (x != y).to(tl.int32) + 4 * (x < y).to(tl.int32)
    code += 8 * (x <= y).to(tl.int32) + 16 * (x > y).to(tl.int32) + 32 * (x >= y).to(tl.int32)
    tl.store(out_ptr + i, tl.where(x > y, -code, code))


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint32, torch.int8], ids=str)
def test_comparisons_with_nan_and_of_both_signednesses(dtype):
    values = [0.0, -0.0, float("nan"), 1.0] if dtype.is_floating_point else [0, 1, 2, 200]
    if not dtype.is_floating_point:
        values = torch.tensor(values, dtype=torch.int64).to(dtype).tolist()
    pairs = [(a, b) for a in values for b in values]
    x, y = (torch.tensor(side, dtype=dtype) for side in zip(*pairs, strict=True))
    out = torch.empty(16, dtype=torch.int32)
    compared[(1,)](x, y, out, N=16)
    expected = [(a == b) + 2 * (a != b) + 4 * (a < b) + 8 * (a <= b) + 16 * (a > b) + 32 * (a >= b) for a, b in pairs]
    assert out.tolist() == [-code if a > b else code for code, (a, b) in zip(expected, pairs, strict=True)]


def test_numpy_is_not_asked_to_warn(simulator):
    with np.errstate(all="raise"):
        x = torch.full((4,), 3e38)
        assert torch.isinf(binary(x, x, "add")).all()
    assert simulator.name == "simulator"

"""ULPs and distances, held against numpy and exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from difftest.dtypes import bits_of, facts, known_dtypes
from difftest.ulps import distance, from_ordered, ordered, rounded, ulp

FLOATS = [getattr(torch, name) for name in known_dtypes() if getattr(torch, name).is_floating_point]
NUMPY = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}
WIDTH = {torch.float16: 16, torch.float32: 32, torch.float64: 64}
INF, NAN = float("inf"), float("nan")


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def every(dtype):
    """Return every value of a dtype of at most 16 bits."""
    half = 2 ** (facts(dtype).bits - 1)
    return torch.arange(-half, half, dtype=torch.int64).to(bits_of(torch.zeros(1, dtype=dtype)).dtype).view(dtype)


@pytest.mark.parametrize("dtype", NUMPY)
def test_ulp_is_the_spacing_of_numpy(dtype):
    @settings(max_examples=150)
    @given(st.floats(width=WIDTH[dtype], allow_nan=False, allow_infinity=False))
    def agrees(value):
        if abs(value) < facts(dtype).largest:
            assert float(ulp(f64(value), dtype)) == float(np.spacing(NUMPY[dtype](abs(value))))

    agrees()


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if facts(dtype).bits <= 16])
def test_ulp_is_the_step_to_the_next_value_at_every_value(dtype):
    values = every(dtype).to(torch.float64)
    steps = values[values.isfinite() & (values >= 0)].sort().values
    # The last value has no next one; its ULP is the step before it, as within its binade.
    assert torch.equal(ulp(steps[:-1], dtype), steps.diff().where(steps.diff() > 0, facts(dtype).smallest_subnormal))


def test_ulp_between_values_is_that_of_the_value_below():
    assert ulp(f64(1.0, 1.999999, 2.0, 3.7, -3.7), torch.bfloat16).tolist() == [2**-7, 2**-7, 2**-6, 2**-6, 2**-6]


@pytest.mark.parametrize("dtype", FLOATS)
def test_ulp_is_positive_and_finite_everywhere(dtype):
    at = ulp(f64(0.0, -0.0, 5e-324, 1e308, INF, -INF, NAN), dtype)
    assert bool((at > 0).all() & at.isfinite().all())
    assert float(at[0]) == facts(dtype).smallest_subnormal
    assert float(at[4]) == facts(dtype).ulp_at_largest


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if facts(dtype).bits <= 16])
def test_neighbours_are_one_apart_at_every_value(dtype):
    values = every(dtype)
    values = values[values.to(torch.float64).isfinite()]
    order = ordered(values).sort().values
    assert set(order.diff().tolist()) == {0, 1}  # 0 between the two zeros
    assert torch.equal(values.to(torch.float64)[ordered(values).argsort()], values.to(torch.float64).sort().values)


@pytest.mark.parametrize("dtype", FLOATS)
def test_from_ordered_undoes_ordered(dtype):
    values = f64(0.0, 1.0, -1.0, 1.5, -3.5, facts(dtype).smallest_subnormal, -facts(dtype).largest).to(dtype)
    assert torch.equal(bits_of(from_ordered(ordered(values), dtype)), bits_of(values))


@pytest.mark.parametrize("dtype", FLOATS)
def test_distance_counts_both_zeros_as_one_value(dtype):
    smallest = facts(dtype).smallest_subnormal
    assert distance(f64(0.0, -smallest).to(dtype), f64(-0.0, smallest).to(dtype)).tolist() == [0, 2]


def test_nans_are_0_apart_and_as_far_as_possible_from_everything_else():
    a, b = torch.tensor([NAN, NAN, 1.0, INF]), torch.tensor([NAN, 1.0, NAN, NAN])
    assert distance(a, b).tolist() == [0, *[2**63 - 1] * 3]


def test_an_infinity_is_one_step_past_the_largest_value():
    assert int(distance(torch.tensor([INF]), torch.tensor([torch.finfo(torch.float32).max]))) == 1


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
@example(-INF, INF)
@example(-1.7976931348623157e308, 1.7976931348623157e308)
def test_distance_of_float64_is_symmetric_and_stops_at_int64(a, b):
    def place(value):
        bits = int(np.float64(value).view(np.int64))
        return bits if bits >= 0 else -(bits + 2**63)

    expected = min(abs(place(a) - place(b)), 2**63 - 1)
    assert int(distance(f64(a), f64(b))) == int(distance(f64(b), f64(a))) == expected


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if facts(dtype).bits <= 16])
def test_rounding_gives_the_nearest_value_and_even_at_ties(dtype):
    finite = sorted({Fraction(value) for value in every(dtype).to(torch.float64).tolist() if math.isfinite(value)})

    @settings(max_examples=100)
    @given(st.integers(1, len(finite) - 2), st.sampled_from([Fraction(0), Fraction(1, 2**60), -Fraction(1, 2**60)]))
    def nearest(index, nudge):
        middle = (finite[index] + finite[index + 1]) / 2
        exact = float(middle * (1 + nudge * 2**10))
        got = rounded(f64(exact), dtype)
        low, high = abs(Fraction(exact) - finite[index]), abs(Fraction(exact) - finite[index + 1])
        if low == high:
            assert int(bits_of(got)) & 1 == 0
        else:
            assert Fraction(float(got.to(torch.float64))) == finite[index + (high < low)]

    nearest()


def test_torch_rounds_twice_where_rounded_does_it_once():
    """The reason for `rounded`: just past a tie, the float32 between is the tie itself."""
    past_a_tie = f64(1 + 2**-8 + 2**-40)
    assert float(past_a_tie.to(torch.bfloat16)) == 1.0
    assert float(rounded(past_a_tie, torch.bfloat16)) == 1 + 2**-7


def test_rounding_keeps_infinities_nans_and_signed_zeros():
    got = rounded(f64(INF, -INF, NAN, -0.0, 1e300), torch.bfloat16)
    assert got.isnan().tolist() == [False, False, True, False, False]
    assert bits_of(got).tolist()[3] == -(2**15)
    assert got[[0, 1, 4]].tolist() == [INF, -INF, INF]

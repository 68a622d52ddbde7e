"""How the corpus compares: what each policy accepts, and what it must reject."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from corpus.agreement import Bits, Positions, Ulp
from corpus.entry import bits_of

FLOATS = ("float16", "bfloat16", "float32", "float64")


def bits(dtype, *numbers):
    return bits_of(torch.tensor(numbers, dtype=torch.float64).to(getattr(torch, dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_changed_bit_is_rejected(dtype):
    recorded = bits(dtype, 0.0, 1.0, -3.0, 7.0)
    for place in range(4):
        for bit in range(recorded.dtype.itemsize * 8):
            actual = recorded.copy()
            actual[place] ^= recorded.dtype.type(1 << bit)
            assert "1 of 4" in Bits().differences(actual, recorded, dtype)
    assert Bits().differences(recorded, recorded, dtype) == ""


def test_a_changed_bit_of_an_integer_is_rejected_with_both_values():
    actual, recorded = np.array([4, 0xFFFFFFFF], dtype=np.uint32), np.array([4, 0xFFFFFFFE], dtype=np.uint32)
    assert Bits().differences(actual, recorded, "int32") == (
        "1 of 2 int32 elements differ: [1] actual -1 (0xffffffff) recorded -2 (0xfffffffe)"
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_nans_are_one_class(dtype):
    recorded = bits(dtype, float("nan"))
    other = recorded ^ recorded.dtype.type(1)
    assert Bits().differences(other, recorded, dtype) == ""
    assert Ulp(1, "").differences(other, recorded, dtype) == ""


@pytest.mark.parametrize("policy", [Bits(), Ulp(1000, ""), Ulp(1000, "", 1.0)])
@pytest.mark.parametrize("pair", ["nan 1", "1 nan", "inf -inf", "inf 3e38", "3e38 inf", "nan inf"])
def test_a_number_is_never_near_nan_or_infinity(policy, pair):
    actual, recorded = pair.split()
    assert policy.differences(bits("float32", float(actual)), bits("float32", float(recorded)), "float32")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("number", [1.0, -1.5, 1000.0, 6e-8, 2.0**-14])
def test_ulps_are_counted_in_the_dtype(dtype, number):
    recorded = bits(dtype, number)
    beside = recorded + recorded.dtype.type(2)
    assert Ulp(2, "").differences(beside, recorded, dtype) == ""
    assert Ulp(1.9, "").differences(beside, recorded, dtype)


def test_a_result_that_was_flushed_to_zero_agrees_only_under_a_scale():
    subnormal, zero = bits("float32", 2.0**-127), bits("float32", 0.0)
    assert Ulp(3, "").differences(subnormal, zero, "float32")
    assert Ulp(3, "", 2.0**-100).differences(subnormal, zero, "float32") == ""
    assert Ulp(3, "", 2.0**-100).differences(bits("float32", 2.0**-110), zero, "float32")


def test_integers_under_a_policy_in_ulps_must_be_equal():
    assert Ulp(5, "").differences(np.array([3], dtype=np.uint32), np.array([4], dtype=np.uint32), "int32")


def test_an_index_in_the_order_of_the_gpu_agrees_only_with_the_element_that_is_there():
    policy, recorded = Positions((0, 2, 1, 3), ""), np.array([1, 3], dtype=np.uint32)
    assert policy.differences(np.array([2, 3], dtype=np.uint32), recorded, "int32") == ""
    assert policy.differences(recorded, recorded, "int32") == ""
    for wrong in ([0, 3], [3, 3], [2, 2], [2, 1]):
        assert policy.differences(np.array(wrong, dtype=np.uint32), recorded, "int32").startswith("1 of 2")


@pytest.mark.parametrize("policy", [Bits(), Ulp(1000, ""), Positions((0,), "")])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_another_shape_is_rejected_although_it_would_broadcast(policy, dtype):
    one, four = np.zeros(1, np.uint32), np.zeros(4, np.uint32)
    assert policy.differences(one, four, dtype) == "shape (1,), recorded (4,)"

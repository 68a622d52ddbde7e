"""Facts of dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from difftest.dtypes import bits_of, dtype_name, dtype_named, facts, is_judged, known_dtypes
from difftest.errors import UnknownName

FLOATS = [name for name in known_dtypes() if getattr(torch, name).is_floating_point]


@pytest.mark.parametrize(("name", "bits", "mantissa"), [("float64", 64, 52), ("float32", 32, 23), ("float16", 16, 10), ("bfloat16", 16, 7)])
def test_sizes_are_those_of_the_formats(name, bits, mantissa):
    assert (facts(dtype_named(name)).bits, facts(dtype_named(name)).mantissa_bits) == (bits, mantissa)


@pytest.mark.parametrize("name", FLOATS)
def test_the_smallest_subnormal_is_the_value_of_bits_one(name):
    dtype = dtype_named(name)
    smallest = torch.ones(1, dtype=bits_of(torch.zeros(1, dtype=dtype)).dtype).view(dtype)
    assert float(smallest.to(torch.float64)) == facts(dtype).smallest_subnormal > 0


@pytest.mark.parametrize("name", FLOATS)
def test_the_ulp_at_the_largest_value_is_its_distance_to_the_value_before(name):
    dtype = dtype_named(name)
    largest = torch.tensor([facts(dtype).largest], dtype=torch.float64).to(dtype)
    before = (bits_of(largest) - 1).view(dtype)
    assert float(largest.to(torch.float64) - before.to(torch.float64)) == facts(dtype).ulp_at_largest


@pytest.mark.parametrize("name", FLOATS)
def test_has_infinity_says_whether_the_dtype_can_hold_one(name):
    held = torch.tensor([float("inf")]).to(dtype_named(name)).to(torch.float64)
    assert bool(held.isinf()) == facts(dtype_named(name)).has_infinity


def test_float32_agrees_with_numpy():
    fact, info = facts(torch.float32), np.finfo(np.float32)
    assert (fact.eps, fact.largest, fact.smallest_normal) == (info.eps, info.max, info.smallest_normal)
    assert fact.smallest_subnormal == info.smallest_subnormal


def test_integers_have_an_ulp_of_one():
    fact = facts(torch.int32)
    assert (fact.is_float, fact.eps, fact.ulp_at_largest, fact.largest) == (False, 1.0, 1.0, 2**31 - 1)
    assert facts(torch.bool).largest == 1


def test_an_unknown_name_gets_the_closest_one():
    with pytest.raises(UnknownName, match=r"no dtype 'bfloat61'; did you mean 'bfloat16'\?"):
        dtype_named("bfloat61")


def test_complex_numbers_are_not_judged():
    assert dtype_name(torch.complex64) == "complex64"
    assert not is_judged(torch.complex64)
    with pytest.raises(UnknownName, match="dtype 'complex64' is not judged"):
        facts(torch.complex64)

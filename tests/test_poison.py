"""Poison marks what nobody wrote."""

from __future__ import annotations

import pytest
import torch

from difftest.poison import holds_poison, is_evidence, poison_, poison_pattern
from difftest.uninitialised import poisoned_allocations

EVIDENT = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", EVIDENT)
def test_poison_is_found_again_by_its_bits(dtype):
    tensor = poison_(torch.zeros(5, dtype=dtype))
    assert is_evidence(dtype)
    assert holds_poison(tensor).all()
    tensor[2] = 1
    assert holds_poison(tensor).tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("dtype", [dtype for dtype in EVIDENT if dtype.is_floating_point])
def test_floating_poison_is_a_nan_that_arithmetic_does_not_produce(dtype):
    poisoned = poison_(torch.zeros(1, dtype=dtype))
    assert poisoned.isnan().all()
    produced = torch.tensor([float("inf")], dtype=dtype) - torch.tensor([float("inf")], dtype=dtype)
    assert not holds_poison(produced).any()
    assert not holds_poison(poisoned + 1).any()


def test_one_byte_types_are_poisoned_but_prove_nothing():
    tensor = poison_(torch.zeros(3, dtype=torch.int8))
    assert tensor.tolist() == [poison_pattern(torch.int8)] * 3
    assert not holds_poison(tensor).any()


def test_every_uninitialised_allocation_of_a_launcher_is_poisoned():
    with poisoned_allocations() as made:
        x = torch.empty(3)
        y = torch.empty_like(x, dtype=torch.int64)
        z = x.new_empty((2, 2))
        torch.empty_strided((2, 2), (1, 2), dtype=torch.bfloat16)
        zeros = torch.zeros(3)
    assert holds_poison(x).all()
    assert holds_poison(y).all()
    assert holds_poison(z).all()
    assert zeros.tolist() == [0, 0, 0]
    assert len(made) == 4
    assert not holds_poison(torch.zeros(3)).any()

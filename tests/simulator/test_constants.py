from __future__ import annotations

import numpy as np
import pytest

from difftest.engines.simulator.attributes import constant
from difftest.engines.simulator.formats import rounded, to_stored
from difftest.errors import Unsupported


@pytest.mark.parametrize(
    ("text", "element", "bits"),
    [
        ("dense<0xFF800000> : tensor<8xf32>", "f32", 0xFF800000),
        ("0x7FC00000 : f32", "f32", 0x7FC00000),
        ("0xFFC00000 : f32", "f32", 0xFFC00000),
        ("-0.000000e+00 : f32", "f32", 0x80000000),
        ("9.99999974E-6 : f32", "f32", 0x3727C5AC),
        ("dense<1.000000e+00> : tensor<4x4xf32>", "f32", 0x3F800000),
        ("0xFF80 : bf16", "bf16", 0xFF80),
        ("0x7FC0 : bf16", "bf16", 0x7FC0),
        ("1.000980e-01 : bf16", "bf16", 0x3DCD),
        ("-0.000000e+00 : bf16", "bf16", 0x8000),
        ("0x7C00 : f16", "f16", 0x7C00),
        ("9.997550e-02 : f16", "f16", 0x2E66),
        ("0x7FF0000000000000 : f64", "f64", 0x7FF0000000000000),
        ("-1 : i64", "i64", 2**64 - 1),
        ("dense<-1> : tensor<8xi32>", "i32", 2**32 - 1),
        ("-128 : i8", "i8", 0x80),
        ("true", "i1", 1),
        ("dense<false> : tensor<16xi1>", "i1", 0),
    ],
)
def test_a_constant_has_the_bits_that_its_text_spells(text, element, bits):
    value, found = constant(text)
    assert found == element
    assert value.shape == (1,)
    assert int(to_stored(value, element)[0]) == bits


@pytest.mark.parametrize("text", ["dense<[1, 2]> : tensor<2xi32>", 'dense<"0x0100000002000000"> : tensor<2xi32>', "@symbol"])
def test_a_constant_that_is_no_splat_is_refused(text):
    with pytest.raises(Unsupported, match="does not know the constant"):
        constant(text)


def test_bfloat16_rounds_ties_to_even_and_overflows_to_infinity():
    bits = [0x3F80_8000, 0x3F81_8000, 0x3F80_8001, 0x3F80_7FFF, 0x7F7F_FFFF, 0x7F80_0000, 0x0000_8000]
    values = np.array(bits, dtype=np.uint32).view(np.float32)
    assert [hex(bits) for bits in to_stored(rounded(values, "bf16"), "bf16")] == [
        "0x3f80", "0x3f82", "0x3f81", "0x3f80", "0x7f80", "0x7f80", "0x0",
    ]  # fmt: skip


def test_float64_to_bfloat16_rounds_once():
    just_above_a_tie = np.array([1.0 + 2.0**-8 + 2.0**-40])
    by_way_of_float32 = rounded(just_above_a_tie.astype(np.float32), "bf16")
    assert by_way_of_float32[0] == 1.0
    assert rounded(just_above_a_tie, "bf16")[0] == 1.0 + 2.0**-7


def test_a_nan_stays_a_nan_in_every_format():
    smallest = np.array([0x7F80_0001, 0xFFFF_FFFF], dtype=np.uint32).view(np.float32)
    for element in ("f16", "bf16", "f32", "f64"):
        with np.errstate(invalid="ignore"):  # as a launch does
            assert np.isnan(rounded(smallest, element)).all()

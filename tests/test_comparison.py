"""Agreement of outputs with their golden answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from difftest import acceptance, comparison, element_errors
from difftest.comparison import Comparison, OutputComparison, compare_bits, compare_non_finite, compare_output, compare_references
from difftest.tolerance import error_ratio, exact, ulp
from difftest.ulps import rounded

RATIO = error_ratio(1.5, floor=1)
INF, NAN = float("inf"), float("nan")
FORM = "shape or dtype mismatch"


@pytest.fixture
def golden():
    """Return 100 x 100 values of very different sizes."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(100, 100, dtype=torch.float64, generator=generator)


def judge(actual, golden, *, baseline=None, scale=None, tolerance=RATIO, tile_rows=None):
    """Compare with, unless one is given, a baseline that is the golden answer rounded to bfloat16."""
    baseline = golden.to(torch.bfloat16) if baseline is None else baseline
    return compare_output("out", actual, golden, baseline, scale, tolerance, tile_rows)


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def bf16(*values):
    return torch.tensor(values, dtype=torch.bfloat16)


def test_the_rounded_golden_answer_is_accepted(golden):
    result = judge(golden.to(torch.bfloat16), golden, tile_rows=7)
    assert (result.accepted, result.compared, result.wrong, result.worst) == (True, 10_000, 0, None)
    assert result.peak == result.baseline_peak <= 0.5
    assert result.allowed_peak == 1.5 * result.baseline_peak + 1
    assert result.peak_ratio == pytest.approx(result.peak / result.allowed_peak, rel=0.05)


def test_zeros_are_rejected(golden):
    assert not judge(torch.zeros(100, 100, dtype=torch.bfloat16), golden).accepted


def test_nan_on_one_side_is_a_finding(golden):
    actual = golden.to(torch.bfloat16)
    actual[3, 4] = NAN
    result = judge(actual, golden)
    assert (result.accepted, result.rule, result.wrong, result.worst.index) == (False, "class", 1, (3, 4))
    assert not compare_output("out", bf16(1.0), f64(NAN), bf16(NAN), None, RATIO).accepted


def test_nan_on_both_sides_agrees_whatever_its_bits():
    odd = torch.tensor([0x7FA5, 0x3F80], dtype=torch.int16).view(torch.bfloat16)
    assert compare_output("out", odd, f64(NAN, 1), bf16(NAN, 1), None, RATIO).accepted
    assert compare_output("out", odd, f64(NAN, 1), bf16(NAN, 1), None, exact).accepted
    assert compare_bits("out", odd, bf16(NAN, 1)).accepted


def test_a_rule_that_says_not_greater_would_let_nan_pass(golden, monkeypatch):
    """The mutant: `not (error > limit)`, and classes that do not know NaN. Each alone is still caught, both together are not."""
    actual = golden.to(torch.bfloat16)
    actual[3, 4] = NAN
    with monkeypatch.context() as only_rule:
        only_rule.setattr(acceptance, "within", lambda error, limit: torch.logical_not(error > limit))
        assert not judge(actual, golden).accepted
    monkeypatch.setattr(element_errors, "classes", lambda values: torch.zeros(values.shape, dtype=torch.int8))
    assert not judge(actual, golden).accepted
    monkeypatch.setattr(acceptance, "within", lambda error, limit: torch.logical_not(error > limit))
    assert judge(actual, golden).accepted


def outlier():
    """Return 1000 golden values in float32 and a baseline that is exact but for one element, which is off by 2**23 ULPs."""
    golden = torch.linspace(1, 2, 1001, dtype=torch.float64)[:1000]
    baseline = golden.to(torch.float32)
    baseline[5] += 1
    return golden, baseline


def test_one_outlier_in_the_baseline_does_not_let_zeros_pass():
    golden, baseline = outlier()
    result = judge(torch.zeros(1000), golden, baseline=baseline, tolerance=error_ratio(3, floor=1))
    assert result.peak <= result.allowed_peak
    assert (result.accepted, result.rule, result.wrong) == (False, "p99", 1000)
    assert "the 99th percentile of the error is over its limit" in result.message()


def test_without_the_percentile_one_outlier_would_let_zeros_pass(monkeypatch):
    golden, baseline = outlier()
    monkeypatch.setattr(acceptance, "_peak_and_p99", lambda table: table.amax(1, keepdim=True).expand(-1, 2))
    assert judge(torch.zeros(1000), golden, baseline=baseline, tolerance=error_ratio(3, floor=1)).accepted


def test_one_large_error_is_a_finding_though_the_percentile_is_small(golden):
    actual = golden.to(torch.bfloat16)
    actual[99, 0] += 10
    result = judge(actual, golden)
    assert (result.accepted, result.rule, result.wrong, result.worst.index) == (False, "peak", 1, (99, 0))
    assert result.p99 <= result.allowed_p99


def test_a_bad_tile_is_a_finding_where_the_whole_output_hides_it():
    """Rows 4 to 7 are off by 3 ULPs; the baseline has one such error, elsewhere."""
    golden = torch.ones(100, 100, dtype=torch.float64)
    baseline, actual = golden.to(torch.bfloat16), golden.to(torch.bfloat16)
    baseline[50, 0] = 1 + 3 * 2**-7
    actual[4] = 1 + 3 * 2**-7
    assert judge(actual, golden, baseline=baseline).accepted
    result = judge(actual, golden, baseline=baseline, tile_rows=4)
    assert (result.accepted, result.rule, result.rows, result.worst.index) == (False, "peak", (4, 7), (4, 0))
    assert result.peak_ratio == 3
    assert "judged in rows 4 to 7" in result.message()


def test_the_last_tile_may_be_short():
    golden = torch.ones(10, 4, dtype=torch.float64)
    baseline, actual = golden.to(torch.bfloat16), golden.to(torch.bfloat16)
    baseline[0], actual[9, 3] = 1.0625, 1.0625
    result = judge(actual, golden, baseline=baseline, tile_rows=4)
    assert (result.rows, result.worst.index) == ((8, 9), (9, 3))


def test_the_error_is_counted_at_the_scale_of_the_terms():
    """100 - 99.9 in bfloat16: off by many ULPs of the difference, and by less than one of the terms."""
    golden, actual = f64(0.1), bf16(0.25)
    assert judge(actual, golden, tolerance=ulp(1)).accepted is False
    result = judge(actual, golden, scale=f64(100.0), tolerance=ulp(1))
    assert result.accepted
    assert result.peak == pytest.approx(0.15 / 2**-1)


@pytest.mark.parametrize("scale", [NAN, INF])
def test_a_scale_that_is_not_finite_does_not_loosen(scale):
    assert not judge(bf16(0.25), f64(0.1), scale=f64(scale), tolerance=ulp(1)).accepted


def test_ulp_allows_what_it_says_and_no_more():
    at_limit, past = bf16(1 + 2 * 2**-7), bf16(1 + 3 * 2**-7)
    assert judge(at_limit, f64(1.0), tolerance=ulp(2)).accepted
    assert not judge(past, f64(1.0), tolerance=ulp(2)).accepted


def test_without_a_baseline_the_floor_is_allowed_and_the_golden_dtype_expected():
    one_off = f64(1 + 2**-52)
    assert compare_output("out", one_off, f64(1.0), None, None, RATIO).allowed_peak == 1
    assert compare_output("out", one_off, f64(1.0), None, None, RATIO).accepted
    assert compare_output("out", bf16(1.0), f64(1.0), None, None, RATIO).rule == FORM


def test_shape_comes_before_values():
    result = judge(torch.full((2, 3), NAN, dtype=torch.float16), f64(1.0, 2.0))
    assert (result.accepted, result.rule, result.compared) == (False, FORM, 0)
    assert result.reason == "out: got shape (2, 3), expected (2,)"


def test_dtype_comes_before_values():
    result = judge(torch.tensor([1.0]), f64(1.0))
    assert (result.rule, result.reason) == (FORM, "out: got dtype float32, expected bfloat16")


@pytest.mark.parametrize("shape", [(), (1,), (1, 100), (100, 1)])
def test_nothing_broadcasts(golden, shape):
    ones = torch.ones(100, 100, dtype=torch.float64)
    assert judge(torch.ones(shape, dtype=torch.bfloat16), ones).rule == FORM
    assert judge(ones.to(torch.bfloat16), ones, baseline=torch.ones(shape, dtype=torch.bfloat16)).rule == FORM
    assert judge(ones.to(torch.bfloat16), ones, scale=torch.ones(shape, dtype=torch.float64)).rule == FORM
    assert compare_bits("out", torch.ones(shape), torch.ones(100, 100)).rule == FORM
    assert compare_references("out", torch.ones(shape, dtype=torch.float64), golden, None).rule == FORM
    assert compare_non_finite("out", torch.ones(shape), torch.ones(100, 100), ones, RATIO).rule == FORM


@pytest.mark.parametrize("value", [None, 1.0, [1.0], (torch.ones(1),)])
def test_what_is_not_a_tensor_is_a_result_and_no_exception(value):
    for result in (judge(value, f64(1.0)), compare_bits("out", value, f64(1.0)), compare_references("out", value, f64(1.0), None)):
        assert (result.accepted, result.rule) == (False, FORM)
        assert f"got {type(value).__name__}, expected a tensor of shape (1,)" in result.message()


def test_odd_tensors_are_a_result_and_no_exception():
    number = torch.ones(1, dtype=torch.complex64)
    assert "complex64 is not judged" in compare_bits("out", number, number).reason
    assert "layout" in judge(torch.ones(1, dtype=torch.bfloat16).to_sparse(), f64(1.0)).reason
    assert judge(bf16(1.0).requires_grad_(), f64(1.0)).accepted


def test_infinities_compare_by_sign():
    for tolerance in (RATIO, exact):
        assert compare_output("out", bf16(INF, -INF), f64(INF, -INF), bf16(INF, -INF), None, tolerance).accepted
        assert compare_output("out", bf16(INF, INF), f64(INF, -INF), bf16(INF, -INF), None, tolerance).wrong == 1
    assert not compare_bits("out", bf16(INF), bf16(-INF)).accepted


def test_a_golden_answer_beyond_the_range_expects_an_infinity():
    assert compare_output("out", bf16(INF), f64(1e39), bf16(INF), None, RATIO).accepted
    assert not compare_output("out", bf16(3e38), f64(1e39), bf16(INF), None, RATIO).accepted
    assert not compare_output("out", bf16(-INF), f64(1e39), bf16(INF), None, RATIO).accepted


def test_where_plain_torch_overflows_both_answers_are_accepted_and_a_wrong_value_is_not():
    golden, baseline = f64(60000.0), torch.tensor([INF], dtype=torch.float16)
    for value, accepted in ((60000.0, True), (INF, True), (-INF, False), (NAN, False), (30000.0, False)):
        actual = torch.tensor([value], dtype=torch.float16)
        assert compare_output("out", actual, golden, baseline, None, RATIO).accepted is accepted


def test_an_infinite_golden_answer_admits_no_finite_value_even_with_a_finite_baseline():
    assert not compare_output("out", bf16(1.0), f64(INF), bf16(1.0), None, RATIO).accepted


def test_integers_are_exact_whatever_the_tolerance():
    golden, baseline = torch.arange(10), torch.arange(10, dtype=torch.int32)
    actual = baseline.clone()
    assert compare_output("slots", actual, golden, baseline, None, RATIO).accepted
    actual[4], actual[7] = -1, 0
    result = compare_output("slots", actual, golden, baseline, None, RATIO)
    assert (result.accepted, result.rule, result.wrong, result.worst.index) == (False, "exact", 2, (4,))
    assert result.worst.error == 5
    assert result.message().splitlines()[:2] == [
        "output 'slots' is wrong: 2 elements differ where equal values are expected",
        "  mismatched elements: 2 of 10 (20%)",
    ]


def test_integers_near_2_to_the_63_are_not_rounded_through_floats():
    golden = torch.tensor([2**62 + 1])
    assert not compare_output("slots", golden - 1, golden, golden, None, exact).accepted


def test_bool_outputs_are_exact():
    golden, baseline = torch.tensor([0, 1]), torch.tensor([False, True])
    assert compare_output("mask", baseline, golden, baseline, None, exact).accepted
    assert compare_output("mask", ~baseline, golden, baseline, None, exact).wrong == 2


def test_exact_floats_are_compared_by_bits():
    assert compare_output("out", bf16(-0.0), f64(-0.0), bf16(-0.0), None, exact).accepted
    assert not compare_output("out", bf16(0.0), f64(-0.0), bf16(-0.0), None, exact).accepted


def test_signed_zero_counts_in_the_strict_leg():
    result = compare_bits("out", bf16(1.0, -0.0), bf16(1.0, 0.0))
    assert (result.accepted, result.rule, result.wrong, result.worst.index, result.worst.error) == (False, "bits", 1, (1,), 0.0)


def test_signed_zero_does_not_count_within_a_tolerance():
    assert judge(bf16(-0.0), f64(0.0)).accepted


def test_the_strict_leg_shows_the_element_that_is_furthest_off():
    result = compare_bits("out", torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[1.0, 2.0000002], [3.0, 4.0]]))
    assert (result.wrong, result.worst.index, result.worst.error) == (2, (1, 1), 2**21)


def test_one_last_bit_is_a_finding_in_the_strict_leg(golden):
    expected = golden.to(torch.bfloat16)
    actual = expected.clone()
    actual.view(torch.int16)[50, 50] ^= 1
    assert judge(actual, golden).accepted
    assert not compare_bits("out", actual, expected).accepted


@pytest.mark.parametrize("tolerance", [RATIO, exact])
def test_an_empty_output_is_accepted_and_counts_nothing(tolerance):
    nothing = torch.empty(0, 8, dtype=torch.float64)
    result = compare_output("out", nothing.to(torch.bfloat16), nothing, nothing.to(torch.bfloat16), nothing, tolerance, tile_rows=4)
    assert (result.accepted, result.compared) == (True, 0)
    assert compare_bits("out", nothing, nothing).compared == 0
    assert compare_references("out", nothing, nothing, None).compared == 0
    assert compare_non_finite("out", nothing.float(), nothing.float(), nothing, tolerance).compared == 0


def test_a_number_without_dimensions_is_judged():
    golden = torch.tensor(1.0, dtype=torch.float64)
    assert judge(golden.to(torch.bfloat16), golden, tile_rows=4).accepted
    result = judge(golden.to(torch.bfloat16) + 1, golden, tile_rows=4)
    assert (result.accepted, result.worst.index) == (False, ())
    assert not compare_bits("out", golden, golden + 1).accepted


def test_a_strided_output_is_judged(golden):
    assert judge(golden.to(torch.bfloat16).T.contiguous().T, golden, tile_rows=7).accepted


def low_and_high():
    """Return a reference at the kernel's precision with every class, and the same in float64."""
    high = f64(1.0, INF, -INF, NAN, 1.001)
    return high.to(torch.bfloat16), high


def test_where_inputs_are_not_finite_the_op_by_op_reference_judges_classes():
    low, high = low_and_high()
    assert compare_non_finite("out", low, low, high, RATIO).accepted
    for place, value in ((0, INF), (0, NAN), (1, -INF), (1, NAN), (2, 1.0), (3, INF), (3, 0.0)):
        actual = low.clone()
        actual[place] = value
        result = compare_non_finite("out", actual, low, high, RATIO)
        assert (result.accepted, result.rule, result.worst.index) == (False, "class", (place,))


def test_where_inputs_are_not_finite_the_finite_elements_keep_their_tolerance():
    low, high = low_and_high()
    actual = low.clone()
    actual[4] = 1.0625
    assert compare_non_finite("out", actual, low, high, RATIO).rule == "peak"


def test_the_float64_computation_does_not_overrule_a_finite_value():
    """A weight of 1e-17 is 0 at the kernel's precision, so 0 * inf is not the infinity that float64 has."""
    assert compare_non_finite("out", bf16(1.0), bf16(1.0), f64(INF), RATIO).accepted
    assert not compare_non_finite("out", bf16(2.0), bf16(1.0), f64(INF), RATIO).accepted
    assert compare_non_finite("out", bf16(NAN), bf16(NAN), f64(INF), RATIO).accepted


def test_fusion_may_turn_a_nan_into_an_infinity_and_nothing_else():
    low, high = bf16(NAN, INF, 1.0), f64(NAN, INF, 1.0)
    assert compare_non_finite("out", bf16(-INF, NAN, 1.0), low, high, RATIO, fused=True).accepted
    assert not compare_non_finite("out", bf16(0.0, INF, 1.0), low, high, RATIO, fused=True).accepted
    assert not compare_non_finite("out", bf16(NAN, INF, INF), low, high, RATIO, fused=True).accepted


def test_exact_outputs_with_infinities_are_compared_by_bits():
    low, high = low_and_high()
    assert compare_non_finite("out", low, low, high, exact).accepted
    assert not compare_non_finite("out", -low, low, high, exact).accepted


def test_references_agree_within_eight_epsilons_of_the_scale():
    eps = 2**-52
    assert compare_references("out", f64(1 + 8 * eps), f64(1.0), f64(1.0)).accepted
    result = compare_references("out", f64(1 + 9 * eps), f64(1.0), f64(1.0))
    assert (result.accepted, result.rule, result.peak) == (False, "references", 9)
    assert compare_references("out", f64(1 + 9 * eps), f64(1.0), f64(2.0)).accepted


def test_references_may_differ_at_a_cancelled_element_by_the_scale_of_its_terms():
    assert not compare_references("out", f64(8.9e-16), f64(0.0), None).accepted
    assert compare_references("out", f64(8.9e-16), f64(0.0), f64(1.0)).accepted


def test_references_of_integers_are_equal_and_those_of_nan_need_nan():
    assert compare_references("slots", torch.tensor([1], dtype=torch.int32), torch.tensor([1]), None).accepted
    assert not compare_references("slots", torch.tensor([2]), torch.tensor([1]), None).accepted
    assert compare_references("out", f64(NAN, INF), f64(NAN, INF), None).accepted
    for value in (NAN, INF):
        assert not compare_references("out", f64(value), f64(1.0), None).accepted
        assert not compare_references("out", f64(1.0), f64(value), f64(1.0)).accepted


def test_a_float_where_integers_are_golden_is_a_mismatch_of_form():
    assert compare_references("slots", f64(1.0), torch.tensor([1]), None).rule == FORM


def test_a_comparison_without_outputs_is_not_accepted():
    assert not Comparison(()).accepted
    assert Comparison(()).message() == "no output was compared"


def test_one_wrong_output_is_enough(golden):
    good, bad = judge(golden.to(torch.bfloat16), golden), judge(-golden.to(torch.bfloat16), golden)
    both = Comparison((good, bad))
    assert (both.accepted, both.compared, both.failed, both.peak, both.reason_kind) == (False, 20_000, (bad,), bad.peak, "peak")
    assert both.message() == bad.message()
    assert Comparison((bad, OutputComparison.rejected("q", FORM, "q: got None"))).reason_kind == FORM
    assert (Comparison((good,)).reason_kind, Comparison((good,)).accepted) == ("", True)


def test_the_message_says_what_where_and_how_far():
    golden = f64(1.0, 2.0)
    assert judge(bf16(1.0, 2.125), golden).message().splitlines() == [
        (
            "output 'out' is wrong: the largest error is over its limit; peak 8 of 1 ULP allowed, 99th percentile 8 of 1"
            " by error_ratio(c=1.5, floor=1); plain torch has 0 and 0"
        ),
        "  mismatched elements: 1 of 2 (50%)",
        "  worst at index (1,):",
        "    actual       2.125",
        "    expected     2.0",
        "    plain torch  2.0",
        "    error        8 ULP, allowed 1",
    ]


def test_the_percentile_is_the_smallest_error_that_99_of_100_elements_keep():
    errors = torch.arange(1.0, 201.0, dtype=torch.float64)
    assert acceptance.statistics(errors, None).tolist() == [[200.0, 198.0]]
    assert acceptance.statistics(errors[:99], None).tolist() == [[99.0, 99.0]]


def test_an_element_rounded_correctly_is_never_further_off_than_plain_torch(golden):
    """So the golden answer itself passes with c = 1 and no floor."""
    baseline = (golden.to(torch.float32) * 1.001).to(torch.bfloat16)
    assert judge(rounded(golden, torch.bfloat16), golden, baseline=baseline, tolerance=error_ratio(1, floor=0), tile_rows=3).accepted


@pytest.mark.gpu
def test_a_gpu_output_is_judged_by_answers_on_the_cpu(golden):
    actual = golden.to(torch.bfloat16).cuda()
    assert judge(actual, golden, scale=golden.abs(), tile_rows=7) == judge(actual.cpu(), golden, scale=golden.abs(), tile_rows=7)
    assert not judge(-actual, golden, tile_rows=7).accepted
    assert comparison.compare_bits("out", actual, golden.to(torch.bfloat16)).accepted


def test_the_worked_example_of_the_document_is_true():
    text = (Path(__file__).resolve().parents[1] / "docs" / "agreement.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert example.count("assert") == 5
    exec(compile(example, "docs/agreement.md", "exec"), {})  # noqa: S102 - our own document

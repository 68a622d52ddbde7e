"""Made-up outputs, and the trust in the oracle that must reject them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from difftest.comparison import compare_output
from difftest.made_up import Expected, wrong_outputs
from difftest.oracle import Trust, made_up_outputs, probe, smallest_error_seen
from difftest.tolerance import error_ratio, exact, ulp
from difftest.ulps import rounded

KINDS = (
    "zeros",
    "a constant",
    "a copy of an input",
    "nothing done",
    "one tile dropped",
    "two rows swapped",
    "last row stale",
    "one element NaN",
    "error just past the limit",
    "another dtype",
    "another shape",
)
# The kinds that change nothing in a square output whose elements are all equal.
UNIFORM = {"a constant", "two rows swapped", "last row stale", "another shape"}


class Setting:
    """One kernel of one output, judged as the runner judges it."""

    def __init__(self, golden, tolerance, *, dtype=torch.bfloat16, scale=None, inputs=None, in_place=(), tile_rows=4):
        baseline = golden.to(dtype)
        self.golden = SimpleNamespace(golden=(golden,), baseline=(baseline,), scales=(scale,))
        self.spec = SimpleNamespace(outputs=("out",), in_place=in_place, writes=(), tile_rows=tile_rows)
        self.expected = (rounded(golden, dtype),)
        self.tolerance, self.inputs = tolerance, inputs or {}

    def judge(self, outputs):
        answers = (self.golden.golden[0], self.golden.baseline[0], self.golden.scales[0])
        return compare_output("out", outputs[0], *answers, self.tolerance, self.spec.tile_rows).accepted

    def made_up(self):
        return list(made_up_outputs(self.expected, self.inputs, self.spec, self.golden, self.tolerance))

    def probed(self, judge=None):
        found = probe(self.made_up(), judge or self.judge)
        return {name.removesuffix(" in `out`"): result for name, result in found.items()}


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def floats(tolerance=None, **changes):
    """Return a setting in which every kind applies: 10 rows of 6, in place, with an input of the same shape."""
    inputs = {"out": normal(10, 6, seed=1).to(torch.bfloat16), "x": normal(10, 6, seed=2).to(torch.bfloat16)}
    return Setting(normal(10, 6), tolerance or error_ratio(1.5, floor=1), **{"inputs": inputs, "in_place": ("out",), **changes})


def integers():
    return Setting(torch.arange(12) * 7, exact, dtype=torch.int32)


@pytest.mark.parametrize("tolerance", [error_ratio(1.5, floor=1), ulp(2), exact])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_applies_and_is_rejected(kind, tolerance):
    assert floats(tolerance).probed()[kind] == "rejected"


def test_these_are_all_kinds():
    assert tuple(floats().probed()) == KINDS


def test_the_expected_outputs_themselves_are_accepted():
    for setting in (floats(), floats(exact), integers()):
        assert setting.judge(setting.expected)


def test_made_up_integers_are_rejected_and_have_no_nan():
    probed = integers().probed()
    assert probed.pop("one element NaN") == probed.pop("a copy of an input") == probed.pop("nothing done") == "not applicable"
    assert set(probed.values()) == {"rejected"}


def test_every_made_up_output_differs_from_what_is_expected():
    setting = floats()
    for one in setting.made_up():
        same_form = one.outputs[0].shape == setting.expected[0].shape and one.outputs[0].dtype == setting.expected[0].dtype
        assert not (same_form and torch.equal(one.outputs[0], setting.expected[0])), one.name


@pytest.mark.parametrize(
    ("golden", "kinds"),
    [
        (torch.zeros(8, 8, dtype=torch.float64), {*UNIFORM, "zeros", "one tile dropped"}),
        (torch.ones(8, 8, dtype=torch.float64), UNIFORM),
        (normal(1, 8), {"two rows swapped", "last row stale"}),
        (torch.empty(0, 8, dtype=torch.float64), set(KINDS)),
    ],
)
def test_a_kind_that_would_give_the_right_answer_does_not_apply(golden, kinds):
    probed = Setting(golden, error_ratio(1.5, floor=1)).probed()
    assert {kind for kind, result in probed.items() if result == "not applicable"} == kinds | {"a copy of an input", "nothing done"}


def test_a_launch_that_changes_nothing_is_no_made_up_output_where_that_is_right():
    golden = normal(10, 6).to(torch.bfloat16).to(torch.float64)
    setting = Setting(golden, error_ratio(1.5), inputs={"out": golden.to(torch.bfloat16)}, in_place=("out",))
    assert setting.probed()["nothing done"] == setting.probed()["one tile dropped"] == "not applicable"


def test_in_place_a_dropped_tile_keeps_its_original():
    setting = floats()
    dropped = next(one.outputs[0] for one in setting.made_up() if one.kind == "one tile dropped")
    changed = (dropped != setting.expected[0]).any(1)
    assert torch.equal(dropped[changed], setting.inputs["out"][changed])
    assert 0 < int(changed.sum()) <= 4


@pytest.mark.parametrize("tolerance", [error_ratio(1.5, floor=1), error_ratio(4, floor=0.25), ulp(0.5), ulp(3)])
@pytest.mark.parametrize("scale", [None, 8.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_error_just_past_the_limit_is_the_first_one_past_it(tolerance, scale, dtype):
    """One representable value nearer to the golden answer is accepted."""
    golden = normal(10, 6)
    scales = None if scale is None else torch.full_like(golden, scale)
    setting = Setting(golden, tolerance, dtype=dtype, scale=scales, tile_rows=None)  # a tile's own limit may be tighter
    wrong = next(one.outputs[0] for one in setting.made_up() if one.kind == "error just past the limit")
    assert not setting.judge((wrong,))
    index = tuple((wrong != setting.expected[0]).nonzero()[0].tolist())
    nearer = wrong.clone()
    bits = nearer.view(torch.int32 if dtype is torch.float32 else torch.int16)
    bits[index] -= 1
    assert setting.judge((nearer,))


def test_one_output_is_made_up_at_a_time():
    golden = SimpleNamespace(golden=(normal(4, 4), normal(3, 4)), baseline=(), scales=(None, None))
    golden.baseline = tuple(one.to(torch.bfloat16) for one in golden.golden)
    spec = SimpleNamespace(outputs=("q", "k"), in_place=(), writes=(), tile_rows=None)
    for one in made_up_outputs(golden.baseline, {}, spec, golden, ulp(1)):
        if one.outputs is not None:
            kept = 1 if one.output == "q" else 0
            assert one.outputs[kept] is golden.baseline[kept]


def trust(*probes):
    found = Trust()
    for one in probes:
        found.add(one)
    return found


def test_an_oracle_that_rejects_all_made_up_outputs_is_trusted():
    assert trust(floats().probed(), integers().probed()).problems() == ()


def test_an_oracle_that_accepts_everything_is_mistrusted_for_every_kind():
    problems = trust(floats().probed(lambda _outputs: True)).problems()
    assert [problem.split(" (")[0] for problem in problems] == list(KINDS)


def blind_to_the_last_row(setting):
    return lambda outputs: setting.judge((torch.cat((outputs[0][:-1], setting.expected[0][-1:])),))


def test_an_oracle_that_does_not_look_at_the_last_row_is_mistrusted():
    setting = Setting(normal(6, 6), error_ratio(1.5, floor=1))
    assert "last row stale (accepted in 1 of 1 cases)" in trust(setting.probed(blind_to_the_last_row(setting))).problems()


def loose(setting):
    """Return a judge with one global largest absolute error, as large as the outputs are."""

    def judge(outputs):
        actual, golden = outputs[0].to(torch.float64), setting.golden.golden[0]
        return actual.shape == golden.shape and bool((actual - golden).abs().amax() <= golden.abs().amax())

    return judge


def test_an_oracle_with_one_global_error_is_mistrusted():
    setting = floats()
    problems = " ".join(trust(setting.probed(loose(setting))).problems())
    assert "zeros (accepted in 1 of 1 cases)" in problems
    assert "error just past the limit" in problems
    assert "another dtype" in problems


def test_an_oracle_that_lets_nan_pass_is_mistrusted():
    setting = floats()

    def judge(outputs):
        same_form = (outputs[0].shape, outputs[0].dtype) == (setting.expected[0].shape, setting.expected[0].dtype)
        return same_form and setting.judge((torch.where(outputs[0].isnan(), setting.expected[0], outputs[0]),))

    assert trust(setting.probed(judge)).problems() == ("one element NaN (accepted in 1 of 1 cases)",)


def test_a_kind_that_comes_out_right_by_chance_in_some_cases_is_fine():
    assert trust({"two rows swapped": "accepted"}, {"two rows swapped": "rejected"}).problems() == ()
    assert trust({"two rows swapped": "accepted"}, {"two rows swapped": "not applicable"}).problems()


@pytest.mark.parametrize("kind", ["error just past the limit", "one element NaN", "another dtype", "another shape"])
def test_these_kinds_must_be_rejected_in_every_case(kind):
    name = f"{kind} in `out`"
    assert trust({name: "accepted"}, {name: "rejected"}).problems() == (f"{name} (accepted in 1 of 2 cases)",)


def test_an_oracle_that_was_never_tried_is_mistrusted():
    assert trust().problems() == ("no made-up output applied to any case",)
    assert trust({"zeros": "not applicable"}).problems() == ("no made-up output applied to any case",)


def test_the_smallest_error_seen_is_that_of_the_first_rejected_value():
    golden = torch.full((4, 4), 1.0, dtype=torch.float64)
    setting = Setting(golden, ulp(5))
    assert smallest_error_seen(setting.expected, setting.golden, setting.judge) == 6.0
    assert smallest_error_seen(setting.expected, setting.golden, lambda _outputs: True) is None


def test_the_smallest_error_seen_is_counted_at_the_scale():
    golden = torch.full((4, 4), -1.0, dtype=torch.float64)
    setting = Setting(golden, ulp(5), scale=torch.full_like(golden, 4.0))
    assert 5 < smallest_error_seen(setting.expected, setting.golden, setting.judge) <= 5.5


def test_there_is_no_smallest_error_of_integers_and_of_nothing():
    setting = integers()
    assert smallest_error_seen(setting.expected, setting.golden, setting.judge) is None
    empty = Setting(torch.empty(0, 4, dtype=torch.float64), ulp(1))
    assert smallest_error_seen(empty.expected, empty.golden, empty.judge) is None


def test_no_error_is_past_the_limit_where_the_dtype_ends():
    """Then the kind does not apply: there is no value to make up."""
    golden = torch.full((2, 2), 65504.0, dtype=torch.float64)
    one = Expected(expected=golden.to(torch.float16), golden=golden, baseline=golden.to(torch.float16), limit=2.0)
    assert dict(wrong_outputs(one))["error just past the limit"] is None


def test_the_document_names_the_kinds_that_there_are():
    text = " ".join((Path(__file__).resolve().parents[1] / "docs" / "agreement.md").read_text().split())
    assert ", ".join(KINDS).replace("nothing done", "nothing done (in place)") in text

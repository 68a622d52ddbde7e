"""The two references of every kernel agree without any kernel: on the real configurations and on generated cases."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck

import reference.bilinear_pos_embed
import reference.bilinear_pos_embed_kernel
import reference.mrope
import reference.slot_mapping
from difftest.case import Case
from difftest.golden import compute_golden
from difftest.tensors import Tensors

SPECS = {
    module.SPEC.name: module.SPEC
    for module in (reference.bilinear_pos_embed, reference.bilinear_pos_embed_kernel, reference.mrope, reference.slot_mapping)
}
CELLS = [(name, dtype) for name, spec in SPECS.items() for dtype in spec.dtypes]
EXAMPLES = [(name, dtype, title) for name, dtype in CELLS for title in SPECS[name].examples(dtype)]
SERVED = [(name, dtype, title) for name, dtype, title in EXAMPLES if dtype in ("bfloat16", "int64")]
FEW_ELEMENTS = 1 << 18
MODELS = ("Qwen3-VL-2B", "Qwen3-VL-4B", "Qwen3-VL-8B", "Qwen3-VL-30B-A3B")


def golden_of(spec, case):
    return compute_golden(spec, case, dict(spec.inputs(case, Tensors(case.seed, "cpu"))))


@pytest.mark.parametrize(("name", "dtype", "title"), SERVED)
def test_references_agree_on_real_configurations(name, dtype, title):
    spec = SPECS[name]
    case = spec.cut(_narrow(spec.examples(dtype)[title]), FEW_ELEMENTS)
    golden = golden_of(spec, case)
    assert golden.agreement.accepted, golden.agreement.message()
    assert golden.agreement.compared == sum(output.numel() for output in golden.baseline)


def _narrow(case):
    """Return a case with few hidden elements, if it has those: the columns of a table are independent, so that a few stand for all."""
    return case.replace(hidden=12) if "hidden" in case else case


@pytest.mark.parametrize(("name", "dtype"), CELLS)
def test_references_agree_on_generated_cases(name, dtype):
    spec, judged = SPECS[name], []

    @hypothesis.seed(2)
    @hypothesis.settings(max_examples=12, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @hypothesis.given(spec.cases(dtype))
    def agree(case):
        assert Case.from_json(case.to_json()) == case
        golden = golden_of(spec, case)
        judged.append(golden.agreement is not None)
        assert golden.agreement is None or golden.agreement.accepted, golden.agreement.message()

    agree()
    assert sum(judged) >= 6, "most cases are finite"


@pytest.mark.parametrize(("name", "dtype"), CELLS)
def test_generated_cases_are_small_and_of_few_constexprs(name, dtype):
    """A compile key takes a hundred times as long as a launch, so constexprs come from a palette."""
    spec, sizes, palette = SPECS[name], [], set()

    @hypothesis.seed(3)
    @hypothesis.settings(max_examples=60, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @hypothesis.given(spec.cases(dtype))
    def note(case):
        sizes.append(_elements(case))
        palette.add(_constexprs(case))

    note()
    assert max(sizes) <= 300_000
    assert len(palette) <= 12


def _elements(case):
    if "hidden" in case:
        return case.t * case.h * case.w * case.hidden
    return case.tokens * (case.q_heads + case.k_heads) * case.head_size if "tokens" in case else case.max_num_tokens


def _constexprs(case):
    names = ("num_grid", "merge", "hidden", "q_heads", "k_heads", "head_size", "rotary_dim", "section", "interleaved", "neox_style")
    return tuple(case[name] for name in (*names, "manager_block", "kernel_block", "world", "rank", "interleave") if name in case)


@pytest.mark.parametrize(("name", "dtype", "title"), EXAMPLES)
def test_cut_leaves_what_makes_up_the_model(name, dtype, title):
    spec = SPECS[name]
    case = spec.examples(dtype)[title]
    small = spec.cut(case, 1000)
    changed = {field for field in case if case[field] != small[field]}
    assert changed <= {"t", "tokens", "lengths", "max_num_tokens"}
    assert _elements(small) <= 1000 or small.get("t", small.get("tokens")) == 1
    assert bool(_elements(small)) == bool(_elements(case))


def test_real_images_are_in_bfloat16_all_eleven_and_every_model_has_two():
    cases = SPECS["bilinear_pos_embed"].examples("bfloat16")
    images = {(case.h, case.w) for case in cases.values() if case.t == 1}
    assert len(images) == 11
    assert {(4, 4), (48, 48), (60, 80), (128, 128)} <= images
    for model in MODELS:
        assert sum(title.startswith(model + " ") for title in cases) >= 2


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if "bfloat16" in spec.dtypes])
def test_a_fill_that_is_not_finite_is_known_to_be(name):
    spec = SPECS[name]
    many = hypothesis.settings(database=None, max_examples=2000)
    case = hypothesis.find(spec.cases("bfloat16"), lambda case: not spec.finite(case), settings=many)
    values = [value for value in spec.inputs(case, Tensors(0, "cpu")).values() if isinstance(value, torch.Tensor)]
    assert any(not bool(value.isfinite().all()) for value in values if value.is_floating_point())
    assert golden_of(spec, case).agreement is None


def test_scales_of_an_interpolation_are_the_absolute_terms_and_a_quarter_of_what_cancelled():
    table = np.array([[1.0], [-2.0], [4.0], [-8.0]])
    (scales,) = reference.bilinear_pos_embed.scales(table, 1, 3, 3, 2, 1, torch.float32)
    quarters = 0.25 * np.array([1, 2, 4, 8])
    cancelled = 0.25 * (quarters[1] + quarters[2] + 2 * quarters[0])
    assert scales[:, 0].reshape(3, 3)[1, 1] == quarters.sum() + cancelled
    assert scales[:, 0].reshape(3, 3)[::2, ::2].tolist() == [[1, 2], [4, 8]], "a cell that is hit has its own size"


def test_scales_of_a_rotation_are_both_terms_of_each_element():
    positions, q = np.array([[0], [0], [0]]), np.array([[3.0, -5.0, 7.0]])
    cache = np.array([[0.5, -0.25]])
    options = {"mrope_section": (1, 0, 0), "head_size": 3, "rotary_dim": 2, "interleaved": True, "neox_style": True}
    scales, _ = reference.mrope.scales(positions, q, q, cache, **options)
    assert scales.tolist() == [[1.5 + 1.25, 2.5 + 0.75, 7.0]]


def test_a_row_that_rounds_onto_the_next_cell_needs_the_cancelled_terms():
    """With zero rows beside a large one, the sum of |weight * value| alone is smaller than what cancelled in its weight."""
    table = torch.zeros(4, 1, dtype=torch.float64)
    table[0] = 1e5
    sizes = (1, 60, 70, 2, 1)
    (high,) = reference.bilinear_pos_embed.torch_reference(table, *sizes, torch.float64)
    (golden,) = reference.bilinear_pos_embed.scipy_reference(table.numpy(), *sizes)
    off = np.abs(high.numpy() - golden)
    eps = np.finfo(np.float64).eps
    assert (off > 8 * eps * np.abs(golden)).any(), "here the golden value is the only term"
    assert (off <= 8 * eps * reference.bilinear_pos_embed.scales(table.numpy(), *sizes, torch.float32)[0]).all()


def test_a_coordinate_that_float32_rounds_onto_the_next_cell_has_the_cell_after_it_among_its_terms():
    """3 * 1.6666666 lies below 5 and rounds to 5: a fused kernel takes the point from columns 5 and 6, the golden answer from 4 and 5."""
    table = np.zeros((16, 16, 1))
    table[:, 6] = 1.0
    where = {"t": 1, "h": 1, "w": 6, "h_scale": 0.0, "w_scale": 5 / 3, "num_grid": 16, "merge_size": 1}
    weight = table.reshape(256, 1)
    (golden,) = reference.bilinear_pos_embed_kernel.scipy_reference(weight=weight, **where, dtype=torch.float32)
    (scales,) = reference.bilinear_pos_embed_kernel.scales(weight=weight, **where, dtype=torch.float32)
    exact = 3 * float(np.float32(5 / 3))
    assert exact < 5
    assert golden[3] == 0
    assert scales[3] * 2.0**-23 >= 5 - exact
    assert scales[0] == 0, "a cell that is hit exactly moves nowhere"

"""The planted defects are what they claim: one edit each of the shipped source, which imports and compiles."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

import difftest.errors
from difftest import triton_adapter
from tests.planted.defects import KERNELS, PLANTED, PlantedDefect, planted_kernel_module

KINDS = {error.kind for error in vars(difftest.errors).values() if hasattr(error, "kind")}
each_defect = pytest.mark.parametrize("defect", PLANTED, ids=lambda defect: defect.name)


def launch_bilinear(module):
    module.bilinear_pos_embed(torch.zeros(9, 24, dtype=torch.bfloat16), 1, 4, 2, 3, 2, torch.bfloat16)


def launch_mrope(module):
    angles = torch.zeros(3, 2, 6)
    module.mrope(torch.zeros(2, 48), torch.zeros(2, 16), angles, angles, (3, 2, 1), 16, 12, interleaved=True, neox_style=False)


def launch_slot_mapping(module):
    starts = torch.tensor([0, 2], dtype=torch.int32)
    positions, table, slots = torch.arange(2), torch.ones(1, 4, dtype=torch.int32), torch.zeros(3, dtype=torch.int64)
    ranks = {"cp_world_size": 2, "cp_rank": 1, "cp_interleave": 2}
    module.slot_mapping(starts, positions, table, slots, num_reqs=1, kernel_block_size=4, manager_block_size=8, **ranks)


LAUNCH = {"bilinear_pos_embed": launch_bilinear, "mrope": launch_mrope, "slot_mapping": launch_slot_mapping}


def ttir_of_launches(op, module):
    texts = []

    def compile_only(launch, _proceed):
        launch.jit.warmup(*launch.args, grid=launch.grid, **launch.kwargs)

    def to_ttir(source, _jit, target, options):
        texts.append(triton_adapter.ttir(source, target, options))
        return texts[-1]

    with (
        triton_adapter.offline_driver("cuda:90"),
        triton_adapter.intercept_compiles(to_ttir),
        triton_adapter.intercept_launches(compile_only),
    ):
        LAUNCH[op](module)
    return texts


@each_defect
def test_every_edit_applies_once_and_changes_the_source(defect):
    shipped = (KERNELS / f"{defect.op}.py").read_text(encoding="utf-8")
    assert defect.source() != shipped


@each_defect
def test_a_planted_kernel_imports_and_compiles(defect):
    with planted_kernel_module(defect) as module:
        assert len(ttir_of_launches(defect.op, module)) == 1


@each_defect
def test_the_finder_is_a_kind_of_finding(defect):
    assert defect.finder
    assert set(defect.finder) <= KINDS


def test_names_are_unique():
    assert len({defect.name for defect in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("old", ["no such text", "tl.load("])
def test_an_edit_that_does_not_apply_once_is_an_error(old):
    with pytest.raises(ValueError, match=r"occurs \d+ times in kernels/mrope.py; expected once"):
        PlantedDefect("x", "mrope", ((old, "y"),), ("disagreement",)).source()


def test_importers_inside_the_block_get_the_defective_module_and_outside_the_shipped_one():
    shipped = importlib.import_module("kernels.mrope")
    defect = next(defect for defect in PLANTED if defect.op == "mrope")
    with planted_kernel_module(defect) as module:
        from kernels.mrope import mrope_kernel  # noqa: PLC0415 - who imports it inside is the subject

        assert mrope_kernel is module.mrope_kernel
        assert importlib.import_module("kernels.mrope") is module
        assert importlib.import_module("kernels").mrope is module
    assert importlib.import_module("kernels.mrope") is shipped
    assert importlib.import_module("kernels").mrope is shipped


def test_a_module_that_was_not_imported_is_not_left_behind(monkeypatch):
    monkeypatch.delitem(sys.modules, "kernels.slot_mapping", raising=False)
    monkeypatch.delattr(importlib.import_module("kernels"), "slot_mapping", raising=False)
    with planted_kernel_module(PLANTED[-1]):
        assert "kernels.slot_mapping" in sys.modules
    assert "kernels.slot_mapping" not in sys.modules
    assert not hasattr(importlib.import_module("kernels"), "slot_mapping")

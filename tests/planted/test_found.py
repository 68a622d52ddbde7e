"""Every planted defect is found with the shipped registration, by its finder, whatever the seed."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from difftest.cell import Cell
from difftest.differential import differential_test
from difftest.engines import engine_named
from difftest.errors import FindingError
from difftest.policy import PRODUCTION
from difftest.profiles import PROFILES
from difftest.spec import collecting
from tests.planted.defects import PLANTED, planted_kernel_module

REFERENCES = Path(__file__).resolve().parents[2] / "reference"
SEEDS = (0, 1, 2, 3, 4)
PROFILE = dataclasses.replace(PROFILES["dev"], simulator_elements=1 << 17)


def spec_on(defect):
    """Return the shipped registration, executed anew where `kernels.<op>` is the defective module."""
    path = REFERENCES / f"{defect.op}.py"
    with collecting() as found:
        module_spec = importlib.util.spec_from_file_location(f"planted_reference_{defect.op}", path)
        module_spec.loader.exec_module(importlib.util.module_from_spec(module_spec))
    return found[defect.op]


def finding(spec, seed):
    """Return the first finding of the production cells, the low precisions first: a missing cast shows only there."""
    engine = engine_named("simulator")  # also on a GPU machine: there a read past a tensor passes unseen
    for dtype in sorted(spec.dtypes, key=lambda name: name == "float32"):
        try:
            differential_test(Cell(spec, PRODUCTION, dtype, engine), PROFILE, session_seed=seed, shrink=False)
        except FindingError as error:
            return error
    return None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("defect", PLANTED, ids=lambda defect: defect.name)
def test_a_planted_defect_is_found_by_its_finder(defect, seed):
    with planted_kernel_module(defect):
        found = finding(spec_on(defect), seed)
    assert found is not None, f"{defect.name} was not found"
    assert found.kind in defect.finder, f"{defect.name} was found by {found.kind}: {found}"

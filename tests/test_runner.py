"""What only the runner can see of a cell."""

from __future__ import annotations

import dataclasses
import importlib

import pytest

from difftest.cell import Cell
from difftest.differential import differential_test
from difftest.engines import engine_named
from difftest.errors import Recompile
from difftest.policy import PRODUCTION
from difftest.profiles import PROFILES

FEW = dataclasses.replace(PROFILES["smoke"], cases=3, contract_cases=1)


@pytest.fixture
def cell():
    spec = importlib.import_module("reference.slot_mapping").SPEC
    return Cell(dataclasses.replace(spec, examples=lambda _dtype: {}), PRODUCTION, "int64", engine_named("simulator"))


def test_every_compile_that_the_hooks_report_was_foreseen_by_a_key(cell):
    runner = differential_test(cell, FEW, session_seed=4)
    assert {event.key for event in runner.log.events} == runner.tally.keys


def test_a_compile_that_no_key_foresaw_is_a_finding(cell, monkeypatch):
    """The check can fail: with one key forgotten, its compile is unforeseen."""
    monkeypatch.setattr("difftest.cell.CellTally.add_launches", lambda _tally, _launches: None)
    with pytest.raises(Recompile, match=r"slot_mapping_kernel was compiled, which no key foresaw: .*`num_tokens`"):
        differential_test(cell, FEW, session_seed=4)

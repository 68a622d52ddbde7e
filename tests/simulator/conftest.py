"""An active simulator for each test, with chunks so small that a launch takes several."""

from __future__ import annotations

import pytest

from difftest.engines.simulator.engine import SimulatorEngine


@pytest.fixture
def simulator():
    engine = SimulatorEngine(chunk_elements=512)
    with engine.activate():
        yield engine

"""The gpu engine says what it lacks before anything runs."""

from __future__ import annotations

import pytest
import torch

from difftest.engines import engine_named
from difftest.engines.gpu import check_cache
from difftest.errors import CacheUnusable, EngineUnavailable


def test_a_cache_directory_that_cannot_be_written_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CacheUnusable, match=r"directory .*inside cannot be written: .*; set TRITON_CACHE_DIR to a writable directory"):
        check_cache(blocked / "inside")
    check_cache(tmp_path / "new")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_is_told_of_the_simulator():
    with pytest.raises(EngineUnavailable, match="use the simulator engine, which needs none"):
        engine_named("gpu")

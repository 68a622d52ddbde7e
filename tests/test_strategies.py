"""What every strategy keeps: JSON-able valid draws, a smallest example that a person could have written, errors that say what to do."""

import subprocess
import sys

import pytest
from drawing import draws, smallest, unreached
from hypothesis import strategies as st
from hypothesis.internal.conjecture.data import ConjectureData

import difftest.strategies
from difftest.case import Case
from difftest.errors import InvalidStrategy
from difftest.fills import REGIMES
from difftest.strategies import (
    block_tables,
    context_parallel,
    dtypes,
    extents,
    fills,
    layouts,
    patch_grids,
    position_ids,
    query_start_locs,
    scalars,
    scales,
    seeds,
)

STRATEGIES = {
    "block_tables": block_tables(),
    "context_parallel": context_parallel(block_size=16),
    "dtypes": dtypes("float32", "bfloat16", "float32_to_bfloat16"),
    "extents": extents(64, max_value=1000),
    "fills": fills(nonfinite=True),
    "layouts": layouts(),
    "patch_grids": patch_grids(merge=2, max_rows=4096),
    "position_ids": position_ids(max_position=1000, text_1d=True),
    "query_start_locs": query_start_locs(max_requests=64, max_tokens=600, tile=64),
    "scalars": scalars(min_value=0, max_value=2**40),
    "scales": scales(),
    "seeds": seeds(),
}

SMALLEST = {
    "block_tables": Case(ids="ascending", shared_prefix=0, null_inside=False, tail="null", narrow=0, offset=0, row_gap=0),
    "context_parallel": (1, 0, 1),
    "dtypes": "float32",
    "extents": 0,
    "fills": "normal",
    "layouts": Case(offset=0, row_gap=0),
    "patch_grids": (1, 2, 2),
    "position_ids": Case(planes=3, max_position=1000, start=(0, 0, 0), runs=(Case(kind="text", length=1),)),
    "query_start_locs": (),
    "scalars": 0,
    "scales": 0.0,
    "seeds": 0,
}


def test_every_public_strategy_is_tested_here():
    assert set(STRATEGIES) == set(SMALLEST) == set(difftest.strategies.__all__)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_draw_survives_json_and_its_repr_is_python(name):
    for value in draws(STRATEGIES[name], 100):
        case = Case(value=value)
        assert Case.from_json(case.to_json()) == case
        assert eval(repr(case), {"Case": Case}) == case  # noqa: S307 - the repr of a case is what is tested


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_shrinks_to_what_a_person_would_have_written(name):
    found = smallest(STRATEGIES[name])
    assert found == SMALLEST[name]
    assert type(found) is type(SMALLEST[name])


def rejected_draws(strategy, monkeypatch):
    """Return how often a draw was given up as invalid (a draw that Hypothesis cuts short itself, to look elsewhere, is none of those)."""
    rejected = []
    reject = ConjectureData.mark_invalid
    with monkeypatch.context() as patch:
        patch.setattr(ConjectureData, "mark_invalid", lambda data, *why, **where: (rejected.append(why), reject(data, *why, **where)))
        draws(strategy)
    return len(rejected)


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_draw_is_rejected(name, monkeypatch):
    assert rejected_draws(STRATEGIES[name], monkeypatch) == 0


def test_a_strategy_that_filters_would_be_noticed(monkeypatch):
    assert rejected_draws(st.integers(0, 100).filter(lambda value: value % 7 == 0), monkeypatch) > 0


KNOWN_DTYPES = "float32, bfloat16, float16, float64, float8_e4m3fn, float8_e5m2, int8, int16, int32, int64, uint8, bool"
EMPTY = "nothing to draw; give"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: extents(min_value=5, max_value=3), f"extents: min_value=5 is above max_value=3: {EMPTY} min_value <= max_value"),
        (lambda: extents(max_value=4.0), "extents: max_value=4.0 is not an int; give a plain Python int"),
        (lambda: extents(0, max_value=4), "extents: tile=0 is below 1; give tile >= 1"),
        (lambda: extents(min_value=-1, max_value=4), "extents: min_value=-1 is below 0; give min_value >= 0"),
        (
            lambda: scalars(min_value=0, max_value=2**64),
            f"scalars: max_value={2**64} does not fit 64 bits: no kernel takes it; give max_value <= {2**64 - 1}",
        ),
        (lambda: patch_grids(merge=4, max_side=3), f"patch_grids: merge=4 is above max_side=3: {EMPTY} merge <= max_side"),
        (lambda: patch_grids(merge=4, max_rows=15), "patch_grids: max_rows=15 leaves no room for the smallest grid; give max_rows >= 16"),
        (
            lambda: scales(max_value=float("inf")),
            "scales: max_value=inf is not a finite number from 0 up; give the largest scale of the kernel",
        ),
        (lambda: position_ids(max_position=0), "position_ids: max_position=0 is below 1; give max_position >= 1"),
        (lambda: block_tables(max_narrow=-1), "block_tables: max_narrow=-1 is below 0; give max_narrow >= 0"),
        (
            lambda: query_start_locs(min_requests=3, max_requests=2, max_tokens=9),
            f"query_start_locs: min_requests=3 is above max_requests=2: {EMPTY} min_requests <= max_requests",
        ),
        (
            lambda: context_parallel(block_size=16, worlds=()),
            f"context_parallel: worlds is empty: {EMPTY} numbers of ranks such as (1, 2)",
        ),
        (lambda: dtypes("float23"), "dtypes: 'float23' is not a dtype; did you mean 'float32'?"),
        (dtypes, f"dtypes: no dtype given: nothing to draw; known: {KNOWN_DTYPES}"),
        (lambda: fills("norml"), "fills: 'norml' is not a fill regime; did you mean 'normal'?"),
        (lambda: layouts(max_offset=True), "layouts: max_offset=True is not an int; give a plain Python int"),
    ],
)
def test_an_impossible_argument_is_an_error_when_the_strategy_is_made(make, message):
    with pytest.raises(InvalidStrategy) as raised:
        make()
    assert str(raised.value) == message


def test_dtypes_and_fills_draw_all_that_was_named_and_nothing_else():
    assert set(draws(dtypes("float16", "float32_to_bfloat16"), 50)) == {"float16", "float32_to_bfloat16"}
    assert set(draws(fills("outlier", "large"), 50)) == {"outlier", "large"}
    assert smallest(fills("outlier", "large")) == "outlier"


def test_infinities_and_nans_are_drawn_only_where_asked_for():
    assert set(draws(fills())) == set(REGIMES) - {"nonfinite"}
    assert set(draws(fills(nonfinite=True))) == set(REGIMES)
    assert set(draws(fills("normal", nonfinite=True))) == {"normal", "nonfinite"}


def test_layouts_reach_aligned_and_unaligned_starts_and_row_gaps():
    for bytes_each in (2, 4, 8):
        wanted = {
            "aligned and not at the start": lambda layout, size=bytes_each: layout.offset > 0 and layout.offset * size % 16 == 0,
            "not aligned": lambda layout, size=bytes_each: layout.offset * size % 16 != 0,
            "gap": lambda layout: layout.row_gap > 0,
            "gap of 1": lambda layout: layout.row_gap == 1,
            "unaligned without a gap": lambda layout, size=bytes_each: layout.row_gap == 0 and layout.offset * size % 16 != 0,
        }
        assert unreached(draws(layouts()), wanted) == set()
    assert set(draws(layouts(max_offset=0, max_row_gap=0), 20)) == {Case(offset=0, row_gap=0)}
    assert smallest(layouts(), lambda layout: layout.offset % 8 != 0) == Case(offset=1, row_gap=0)


def test_importing_and_making_strategies_loads_neither_torch_nor_triton():
    code = (
        "import sys; from difftest import strategies as s; s.scalars(min_value=0, max_value=9); s.fills(); s.layouts(); s.block_tables();"
        "s.position_ids(max_position=9); print([name for name in ('torch', 'triton') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"

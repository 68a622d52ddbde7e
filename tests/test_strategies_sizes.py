"""`extents`, `scalars`, `patch_grids` and `scales` reach the edges they promise, and shrink to the smallest value that fails."""

import collections
import struct

import pytest
from drawing import draws, smallest, unreached
from hypothesis import strategies as st

from difftest.errors import InvalidStrategy
from difftest.specialization import scalar_class
from difftest.strategies import extents, patch_grids, scalars, scales
from difftest.strategies.edges import edges, rungs

TILE = 64
TILE_EDGES = {0, 1, TILE - 1, TILE, TILE + 1, 2 * TILE - 1, 2 * TILE, 2 * TILE + 1, 299, 300}


def test_extents_reach_every_edge_of_a_tile_and_of_the_range():
    assert unreached(draws(extents(TILE, max_value=300)), TILE_EDGES) == set()


def test_a_strategy_that_never_draws_1_would_be_noticed():
    never_one = extents(TILE, max_value=300).map(lambda value: 2 if value == 1 else value)
    assert unreached(draws(never_one), TILE_EDGES) == {1}


def test_uniform_ints_would_be_noticed():
    assert unreached(draws(st.integers(0, 10_000)), edges(0, 10_000, (TILE,)))


def test_extents_reach_multiples_of_16_their_neighbours_primes_and_arbitrary_ints():
    wanted = {
        "multiple of 16": lambda value: value > 0 and value % 16 == 0 and value not in TILE_EDGES,
        "one more": lambda value: value % 16 == 1 and value not in TILE_EDGES,
        "one less": lambda value: value % 16 == 15 and value not in TILE_EDGES,
        "prime": lambda value: value in {5, 7, 37, 97},
        "not an edge": lambda value: value not in edges(0, 300, (TILE,)),
    }
    drawn = draws(extents(TILE, max_value=300))
    assert unreached(drawn, wanted) == set()
    assert sum(value in edges(0, 300, (TILE,)) for value in drawn) > len(drawn) / 2


@pytest.mark.parametrize("maximum", [10**6, 2**40])
def test_extents_reach_the_maximum_of_a_wide_range(maximum):
    assert unreached(draws(extents(256, max_value=maximum), 1000), {0, 1, 255, 256, 257, maximum}) == set()


def test_extents_of_several_tiles_reach_each():
    assert unreached(draws(extents((32, 128), max_value=300)), {31, 32, 33, 63, 65, 127, 128, 129, 255, 257}) == set()


@pytest.mark.parametrize(("low", "high"), [(0, 0), (7, 7), (3, 11), (0, 63), (100, 160), (65, 66)])
def test_extents_of_a_narrow_range_draw_every_value(low, high):
    assert set(draws(extents(TILE, min_value=low, max_value=high), 600)) == set(range(low, high + 1))


@pytest.mark.parametrize("tiles", [(), (TILE,), (16, 32, 64, 128, 256, 512, 1024, 2048)])
@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 10), (0, 300), (1000, 10**6), (0, 2**40)])
def test_rungs_ascend_within_the_range_and_are_few_enough_to_be_drawn_evenly(low, high, tiles):
    ladder = rungs(low, high, tiles)
    assert list(ladder) == sorted(ladder)
    assert low == ladder[0]
    assert high == ladder[-1]
    assert len(ladder) <= 255


@pytest.mark.parametrize("bound", [0, 1, 20, 63, 64, 65, 129])
def test_extents_shrink_to_the_smallest_value_that_fails(bound):
    assert smallest(extents(TILE, max_value=10_000), lambda value: value >= bound) == bound


def test_extents_shrink_to_an_edge_or_to_the_smallest_value_where_values_are_large():
    found = smallest(extents(TILE, max_value=10_000), lambda value: value >= 700)
    assert found in {700, min(edge for edge in edges(0, 10_000, (TILE,)) if edge >= 700)}


WIDTHS = ("", "64-bit ", "unsigned 64-bit ")


def classes(strategy, count=600):
    return collections.Counter(scalar_class(value) for value in draws(strategy, count))


def lopsided(counted, wanted):
    """Return the classes drawn less than half as often as an equal share."""
    return {name for name in wanted if counted[name] < sum(counted.values()) / len(wanted) / 2}


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 2**20, {"1", "multiple of 16", "other"}),
        (2, 2**20, {"multiple of 16", "other"}),
        (1, 1, {"1"}),
        (1000, 1010, {"multiple of 16", "other"}),
        (-(2**63), 2**64 - 1, {width + name for width in WIDTHS for name in ("multiple of 16", "other")} | {"1"}),
    ],
)
def test_scalars_draw_every_class_of_the_range_about_equally_often(low, high, wanted):
    counted = classes(scalars(min_value=low, max_value=high))
    assert set(counted) == wanted
    assert lopsided(counted, wanted) == set()


def test_scalars_drawn_without_regard_to_class_would_be_noticed():
    wanted = {"1", "multiple of 16", "other"}
    assert "1" in lopsided(classes(st.integers(0, 2**20)), wanted)


def test_scalars_stay_in_range_and_are_many():
    drawn = draws(scalars(min_value=-40, max_value=10**6))
    assert all(-40 <= value <= 10**6 for value in drawn)
    assert len(set(drawn)) > 60


def test_scalars_of_chosen_classes_draw_no_other():
    assert set(classes(scalars(min_value=0, max_value=10**6, classes=["other", "1"]), 100)) == {"1", "other"}


def test_scalars_shrink_within_the_class():
    assert smallest(scalars(min_value=0, max_value=10**6), lambda value: value % 16 not in (0, 1)) == 2
    assert smallest(scalars(min_value=1, max_value=10**6)) == 1
    assert smallest(scalars(min_value=1, max_value=10**6), lambda value: value % 16 == 0) == 16
    assert smallest(scalars(min_value=0, max_value=2**40), lambda value: value >= 2**31) == 2**31


def test_a_class_without_a_value_in_the_range_is_an_error_that_names_those_it_has():
    with pytest.raises(InvalidStrategy) as raised:
        draws(scalars(min_value=2, max_value=15, classes=["1"]), 1)
    assert str(raised.value) == "scalars: '1' is not a class with values from 2 to 15; known: other"


def test_scalars_ask_another_authority_for_the_classes():
    drawn = draws(scalars(min_value=0, max_value=100, scalar_class=lambda value: "odd" if value % 2 else "even"), 100)
    assert 0.3 < sum(value % 2 for value in drawn) / len(drawn) < 0.7


GRIDS = {
    "square": lambda grid: grid[1] == grid[2] > 1,
    "tall": lambda grid: grid[1] > grid[2],
    "wide": lambda grid: grid[1] < grid[2],
    "h is 1": lambda grid: grid[1] == 1 < grid[2],
    "w is 1": lambda grid: grid[2] == 1 < grid[1],
    "no frame": lambda grid: grid[0] == 0,
    "one frame": lambda grid: grid[0] == 1,
    "video": lambda grid: grid[0] > 1,
    "largest video": lambda grid: grid[0] == 4,
}


def test_patch_grids_reach_every_shape():
    assert unreached(draws(patch_grids(max_rows=1024)), GRIDS) == set()
    swapped = draws(patch_grids(max_rows=1024).map(lambda grid: (grid[0], min(grid[1:]), max(grid[1:]))))
    assert unreached(swapped, GRIDS) == {"tall", "w is 1"}


@pytest.mark.parametrize("merge", [1, 2, 3, 4])
def test_patch_grids_are_multiples_of_merge_within_their_bounds(merge):
    for t, h, w in draws(patch_grids(merge=merge, max_t=6, max_side=31, max_rows=500)):
        assert 0 <= t <= 6
        assert h % merge == w % merge == 0
        assert merge <= min(h, w)
        assert max(h, w) <= 31
        assert max(t, 1) * h * w <= 500


def test_patch_grids_shrink_to_the_smallest_of_their_kind():
    assert smallest(patch_grids(merge=2), lambda grid: grid[1] != grid[2]) in {(1, 2, 4), (1, 4, 2)}
    assert smallest(patch_grids(), lambda grid: grid[0] > 1) == (2, 1, 1)
    assert smallest(patch_grids(min_t=2, max_t=3)) == (2, 1, 1)


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def test_scales_reach_zero_one_ratios_tiny_and_what_float32_cannot_represent():
    wanted = {
        "zero": lambda scale: scale == 0.0,
        "one": lambda scale: scale == 1.0,
        "ratio": lambda scale: scale in {3 / 7, 47 / 31, 63 / 2, 1 / 63, 62 / 63, 47 / 60, 1 / 2},
        "tiny": lambda scale: 0 < scale < 1e-6,
        "subnormal": lambda scale: 0 < scale < 2.0**-126,
        "rounded": lambda scale: as_float32(scale) != scale,
        "above one": lambda scale: scale > 1,
    }
    drawn = draws(scales())
    assert unreached(drawn, wanted) == set()
    assert all(isinstance(scale, float) and 0.0 <= scale <= 64.0 for scale in drawn)


@pytest.mark.parametrize("limit", [0.0, 0.3, 1.0, 2.5])
def test_scales_stay_below_their_limit(limit):
    assert all(0.0 <= scale <= limit for scale in draws(scales(max_value=limit)))


def test_scales_shrink_to_zero_and_then_one():
    assert smallest(scales(), lambda scale: scale > 0) == 1.0

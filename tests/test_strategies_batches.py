"""Position ids, block tables, ragged batches and ranks: what is drawn, and what tensors the descriptors become."""

import pytest
import torch
from drawing import draws, smallest, unreached

from difftest.block_tables import block_table_tensor
from difftest.case import Case
from difftest.errors import InvalidCase
from difftest.position_ids import position_ids_tensor
from difftest.ragged import query_start_loc_tensor
from difftest.strategies import block_tables, context_parallel, position_ids, query_start_locs

TEXT = Case(kind="text", length=3)


def described(*runs, start=(0, 0, 0), max_position=100, planes=3):
    return Case(planes=planes, max_position=max_position, start=start, runs=runs)


def positions(descriptor, tokens, seed=0):
    return position_ids_tensor(descriptor, tokens, device="cpu", seed=seed).tolist()


def test_text_has_three_equal_planes_and_advances():
    assert positions(described(TEXT, start=(5, 5, 5)), 5) == [[5, 6, 7, 8, 9]] * 3


def test_an_image_holds_time_still_and_walks_the_grid():
    image = Case(kind="image", h=2, w=3)
    assert positions(described(TEXT, image, TEXT), 11) == [
        [0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7],
        [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7],
        [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7],
    ]


def test_a_video_advances_time_by_frame():
    assert positions(described(Case(kind="video", t=2, h=1, w=2)), 4) == [[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]]


def test_gap_skips_reset_returns_to_zero_and_repeat_stands_still():
    runs = (TEXT, Case(kind="gap", length=10), Case(kind="repeat", length=2), Case(kind="reset"), TEXT)
    assert positions(described(*runs, start=(7, 7, 7)), 8)[0] == [7, 8, 9, 20, 20, 0, 1, 2]


def test_runs_are_repeated_from_where_they_ended_and_positions_wrap_at_the_end():
    assert positions(described(TEXT, start=(4, 4, 4), max_position=6), 7)[0] == [4, 5, 0, 1, 2, 3, 4]
    assert positions(described(TEXT, Case(kind="reset"), TEXT), 9)[0] == [0, 1, 2, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["text", "repeat", "scatter"])
def test_fewer_tokens_are_the_first_of_more(kind):
    descriptor = described(TEXT, Case(kind="reset"), Case(kind=kind, length=4), start=(3, 1, 2))
    assert positions(descriptor, 20) == [plane[:20] for plane in positions(descriptor, 50)]


def test_scattered_tokens_differ_between_planes_and_follow_the_seed():
    descriptor = described(Case(kind="scatter", length=1), max_position=1000)
    planes = positions(descriptor, 50)
    assert planes[0] != planes[1] != planes[2] != planes[0]
    assert positions(descriptor, 50, seed=1) != planes


def test_one_plane_of_text_is_a_vector():
    ids = position_ids_tensor(described(TEXT, planes=1), 4, device="cpu")
    assert ids.shape == (4,)
    assert ids.dtype == torch.int64


def test_runs_without_a_token_are_an_error():
    with pytest.raises(InvalidCase, match=r"hold no token; add a run such as Case\(kind='text', length=1\)"):
        positions(described(Case(kind="gap", length=2)), 3)
    with pytest.raises(InvalidCase, match="'vdeo' is not a kind of run; did you mean 'video'"):
        positions(described(Case(kind="vdeo", length=2)), 3)


def kinds(descriptor):
    return {run.kind for run in descriptor.runs}


DRAWN = {
    "text only": lambda drawn: drawn.planes == 3 and kinds(drawn) == {"text"},
    "one plane": lambda drawn: drawn.planes == 1,
    "image": lambda drawn: kinds(drawn) == {"image"},
    "image, h not w": lambda drawn: any(run.kind == "image" and run.h != run.w for run in drawn.runs),
    "video": lambda drawn: any(run.kind == "video" and run.t > 1 for run in drawn.runs),
    "mixture": lambda drawn: {"image", "text"} <= kinds(drawn),
    "gap": lambda drawn: "gap" in kinds(drawn),
    "reset": lambda drawn: "reset" in kinds(drawn),
    "repeat": lambda drawn: any(run.kind == "repeat" and run.length > 1 for run in drawn.runs),
    "scatter": lambda drawn: "scatter" in kinds(drawn),
    "last position": lambda drawn: drawn.max_position - 1 in drawn.start,
}


def share_of_three_planes(drawn):
    """Return how many of the draws give planes of which no two are equal, for as little as one token."""
    return sum(len({tuple(plane) for plane in positions(each, 1)}) == 3 for each in drawn if each.planes == 3) / len(drawn)


def test_position_ids_reach_every_kind():
    assert unreached(draws(position_ids(max_position=500, text_1d=True), 500), DRAWN) == set()
    assert unreached(draws(position_ids(max_position=500), 500), DRAWN) == {"one plane"}


def test_most_draws_have_three_different_planes_already_in_the_first_token():
    drawn = draws(position_ids(max_position=500))
    assert share_of_three_planes(drawn) > 0.6
    text = [each.replace(start=(each.start[0],) * 3, runs=(TEXT,)) for each in drawn]
    assert share_of_three_planes(text) == 0


@pytest.mark.parametrize("max_position", [1, 2, 3, 500])
def test_every_drawn_position_is_in_range(max_position):
    for descriptor in draws(position_ids(max_position=max_position, text_1d=True), 200):
        ids = position_ids_tensor(descriptor, 70, device="cpu")
        assert ids.shape == ((3, 70) if descriptor.planes == 3 else (70,))
        assert ids.min() >= 0
        assert ids.max() < max_position
        assert position_ids_tensor(descriptor, 0, device="cpu").numel() == 0


def test_different_planes_shrink_to_one_token_with_near_starts():
    found = smallest(position_ids(max_position=500), lambda drawn: len({plane[0] for plane in positions(drawn, 1)}) == 3)
    first_runs = (Case(kind="image", h=1, w=1), Case(kind="scatter", length=1))
    assert found in {described(run, start=(0, 1, 2), max_position=500) for run in first_runs}


PLAIN = Case(ids="ascending", shared_prefix=0, null_inside=False, tail="null", narrow=0, offset=0, row_gap=0)


def table(rows, width, seed=0, used=None, **changes):
    return block_table_tensor(PLAIN.replace(**changes), rows, width, device="cpu", seed=seed, used=used)


def test_a_plain_table_numbers_its_blocks_from_1():
    assert table(2, 3).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert table(2, 3).dtype == torch.int32


def test_permuted_and_huge_ids_are_distinct():
    permuted, huge = table(4, 8, ids="permuted"), table(4, 8, ids="huge")
    assert sorted(permuted.flatten().tolist()) == list(range(1, 33))
    assert permuted.flatten().tolist() != list(range(1, 33))
    assert permuted.tolist() != table(4, 8, ids="permuted", seed=1).tolist()
    assert len(set(huge.flatten().tolist())) == 32
    assert huge.max() == 2**31 - 1
    assert huge.min() == 2**31 - 32


def test_a_shared_prefix_is_the_first_requests_blocks():
    shared = table(3, 4, ids="permuted", shared_prefix=2)
    assert (shared[:, :2] == shared[0, :2]).all()
    assert len(set(shared[:, 2:].flatten().tolist())) == 6


def test_null_blocks_stand_inside_every_row():
    inside = table(20, 30, null_inside=True)
    assert ((inside == 0).sum(dim=1) >= 1).all()
    assert 0.08 < (inside == 0).float().mean() < 0.25
    assert (table(20, 30) != 0).all()


def test_the_unused_tail_is_null_or_garbage():
    assert table(2, 3, used=(1, 3)).tolist() == [[1, 0, 0], [4, 5, 6]]
    garbage = table(2, 3, used=(0, 2), tail="garbage")
    assert garbage[1, :2].tolist() == [4, 5]
    assert not {*garbage[0].tolist(), garbage[1, 2].item()} & set(range(7))


def test_a_narrow_table_lacks_columns_and_a_sliced_one_has_a_longer_stride():
    assert table(2, 5, narrow=2).shape == (2, 3)
    assert table(2, 1, narrow=2).shape == (2, 0)
    sliced = table(3, 4, row_gap=5, offset=1)
    assert sliced.stride() == (9, 1)
    assert sliced.tolist() == table(3, 4).tolist()
    assert sliced.data_ptr() % 16 == 4


def test_a_table_of_nothing_is_empty():
    assert table(0, 4, shared_prefix=2, null_inside=True, used=()).shape == (0, 4)
    assert table(3, 0, null_inside=True, row_gap=2).shape == (3, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: table(2, 3, ids="hugh"), "block table: ids='hugh' is unknown; did you mean 'huge'?"),
        (lambda: table(2, 3, used=(1,)), "block table: used has 1 entries for 2 rows; give one number of columns a row"),
        (lambda: table(2**16, 2**15), "block table: 65536 x 32768 distinct blocks do not fit int32; draw fewer rows or columns"),
    ],
)
def test_an_impossible_table_is_an_error(make, message):
    with pytest.raises(InvalidCase) as raised:
        make()
    assert str(raised.value) == message


def test_block_tables_reach_every_feature_and_none():
    wanted = {
        "plain": lambda drawn: drawn == PLAIN,
        "permuted": lambda drawn: drawn.ids == "permuted",
        "huge": lambda drawn: drawn.ids == "huge",
        "shared prefix": lambda drawn: drawn.shared_prefix > 0,
        "null inside": lambda drawn: drawn.null_inside,
        "garbage tail": lambda drawn: drawn.tail == "garbage",
        "narrow": lambda drawn: drawn.narrow > 0,
        "sliced": lambda drawn: drawn.row_gap > 0,
        "unaligned": lambda drawn: drawn.offset % 4 != 0,
    }
    assert unreached(draws(block_tables()), wanted) == set()
    assert unreached(draws(block_tables(max_narrow=0, max_row_gap=0)), wanted) == {"narrow", "sliced"}
    assert smallest(block_tables(), lambda drawn: drawn.row_gap > 0) == PLAIN.replace(row_gap=1)


BATCHES = {
    "no request": lambda lengths: lengths == (),
    "all empty": lambda lengths: len(lengths) > 1 and sum(lengths) == 0,
    "first empty": lambda lengths: len(lengths) > 1 and lengths[0] == 0 < sum(lengths),
    "middle empty": lambda lengths: len(lengths) > 2 and 0 in lengths[1:-1] and lengths[0] > 0 and lengths[-1] > 0,
    "last empty": lambda lengths: len(lengths) > 1 and lengths[-1] == 0 < sum(lengths),
    "decode": lambda lengths: len(lengths) > 3 and set(lengths) == {1},
    "full decode": lambda lengths: len(lengths) == 40 and set(lengths) == {1},
    "several tiles": lambda lengths: any(length > 2 * 64 for length in lengths),
    "one tile": lambda lengths: 64 in lengths,
    "start not at a tile": lambda lengths: len(lengths) > 1 and lengths[0] % 64 != 0 and lengths[1] > 64,
    "all tokens": lambda lengths: sum(lengths) == 700,
}


def test_batches_reach_every_shape():
    assert unreached(draws(query_start_locs(max_requests=40, max_tokens=700, tile=64), 600), BATCHES) == set()


def test_batches_without_empty_requests_would_be_noticed():
    drawn = draws(query_start_locs(max_requests=40, max_tokens=700, tile=64).map(lambda lengths: tuple(n for n in lengths if n)), 600)
    assert unreached(drawn, BATCHES) == {"all empty", "first empty", "middle empty", "last empty"}


@pytest.mark.parametrize(("requests", "tokens"), [((0, 0), 5), ((1, 1), 0), ((3, 3), 2), ((20, 30), 25), ((0, 1024), 2048)])
def test_batches_stay_within_their_bounds(requests, tokens):
    low, high = requests
    for lengths in draws(query_start_locs(min_requests=low, max_requests=high, max_tokens=tokens, tile=16)):
        assert low <= len(lengths) <= high
        assert sum(lengths) <= tokens
        assert all(length >= 0 for length in lengths)


def test_a_failing_batch_shrinks_to_one_request():
    strategy = query_start_locs(max_requests=40, max_tokens=700, tile=64)
    assert smallest(strategy, lambda lengths: any(length > 16 for length in lengths)) == (17,)
    assert smallest(strategy, lambda lengths: len(lengths) > 1) in {(0, 0), (1, 1)}


def test_start_locations_are_the_running_sums():
    starts = query_start_loc_tensor((0, 3, 0, 1), device="cpu", layout=Case(offset=1))
    assert starts.tolist() == [0, 0, 3, 3, 4]
    assert starts.dtype == torch.int32
    assert starts.data_ptr() % 16 == 4
    assert query_start_loc_tensor((), device="cpu").tolist() == [0]
    with pytest.raises(InvalidCase, match="request 1 has -2 tokens; give lengths from 0 up"):
        query_start_loc_tensor((1, -2), device="cpu")


def test_ranks_and_interleaves_are_all_reached_and_valid():
    drawn = set(draws(context_parallel(block_size=4, worlds=(1, 2, 4)), 800))
    assert drawn == {(world, rank, il) for world in (1, 2, 4) for rank in range(world) for il in (1, 2, 4)}
    assert {il for _, _, il in draws(context_parallel(block_size=528, worlds=(3,)), 500)} == {n for n in range(1, 529) if 528 % n == 0}
    assert smallest(context_parallel(block_size=16), lambda drawn: drawn[1] > 0) == (2, 1, 1)

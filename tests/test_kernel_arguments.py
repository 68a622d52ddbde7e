"""A wrong argument is named before any launch, with nothing written."""

from __future__ import annotations

import pytest
import torch

from difftest import triton_adapter
from kernels.bilinear_pos_embed import bilinear_pos_embed
from kernels.mrope import mrope, mrope_from_positions
from kernels.slot_mapping import slot_mapping
from tests.right_arguments import ARGUMENTS, slot_arguments, zeros

LAUNCHERS = pytest.mark.parametrize("launcher", ARGUMENTS, ids=lambda launcher: launcher.__name__)

BILINEAR = (
    ({"h": 5}, ValueError, "h is 5; expected a multiple of merge_size 2"),
    ({"w": 3}, ValueError, "w is 3; expected a multiple of merge_size 2"),
    ({"h": -2}, ValueError, "h is -2; expected at least 0"),
    ({"w": -2}, ValueError, "w is -2; expected at least 0"),
    ({"t": -1}, ValueError, "t is -1; expected at least 0"),
    ({"t": True}, TypeError, "t is True (bool); expected an int"),
    ({"h": 4.0}, TypeError, "h is 4.0 (float); expected an int"),
    ({"merge_size": 0}, ValueError, "merge_size is 0; expected at least 1"),
    ({"num_grid_per_side": 0}, ValueError, "num_grid_per_side is 0; expected at least 1"),
    ({"t": 2**31}, ValueError, f"t * h * w is {2**31} * 4 * 2 = {2**34} rows; expected at most {2**31 - 1}"),
    (
        {"num_grid_per_side": 4},
        ValueError,
        "weight has shape (9, 8); expected (num_grid_per_side**2, hidden) = (16, hidden) for num_grid_per_side 4",
    ),
    ({"weight": zeros(9)}, ValueError, "weight has shape (9,); expected (num_grid_per_side**2, hidden) = (9, hidden)"),
    ({"weight": zeros(9, 16)[:, ::2]}, ValueError, "weight has strides (16, 2); expected a contiguous table"),
    ({"weight": zeros(9, 8, device="meta")}, ValueError, "weight is on device meta, which holds no data"),
    ({"weight": [0.0]}, TypeError, "weight is a list; expected a tensor (num_grid_per_side**2, hidden)"),
    ({"weight": zeros(9, 8, dtype=torch.float64)}, ValueError, "weight.dtype is torch.float64; expected one of torch.float32"),
    ({"dtype": torch.int32}, ValueError, "dtype is torch.int32; expected one of torch.float32"),
    ({"dtype": "float32"}, TypeError, "dtype is 'float32'; expected a torch.dtype"),
    (
        {"weight": zeros(9, 8, dtype=torch.float16), "dtype": torch.bfloat16},
        ValueError,
        "dtype is torch.bfloat16 with a table of torch.float16; expected equal dtypes, or one of the two torch.float32",
    ),
)

BOTH_MROPE = (
    ({"mrope_section": (2, 2, 1)}, ValueError, "mrope_section is (2, 2, 1) with sum 5; expected the sum rotary_dim / 2 = 6"),
    ({"mrope_section": (3, 3)}, TypeError, "mrope_section is (3, 3); expected three ints (t, h, w)"),
    ({"mrope_section": (-1, 4, 3)}, ValueError, "mrope_section t is -1; expected at least 0"),
    ({"mrope_section": (2, 3.0, 1)}, TypeError, "mrope_section h is 3.0 (float); expected an int"),
    ({"rotary_dim": 11}, ValueError, "rotary_dim is 11; expected an even number, at most head_size 16"),
    ({"rotary_dim": 18}, ValueError, "rotary_dim is 18; expected an even number, at most head_size 16"),
    ({"rotary_dim": 0}, ValueError, "rotary_dim is 0; expected at least 2"),
    ({"head_size": 24}, ValueError, "q has 32 columns; expected a positive multiple of head_size 24"),
    ({"head_size": 32}, ValueError, "k has 16 columns; expected a positive multiple of head_size 32"),
    ({"head_size": True}, TypeError, "head_size is True (bool); expected an int"),
    ({"interleaved": 1}, TypeError, "interleaved is 1; expected True or False"),
    ({"neox_style": None}, TypeError, "neox_style is None; expected True or False"),
    ({"q": zeros(4, 2, 16)}, ValueError, "q has shape (4, 2, 16); expected (num_tokens, q_heads * head_size)"),
    ({"k": zeros(3, 16)}, ValueError, "k has shape (3, 16); expected (4, k_heads * head_size)"),
    ({"k": zeros(4, 0)}, ValueError, "k has 0 columns; expected a positive multiple of head_size 16"),
    ({"k": zeros(4, 16, device="meta")}, ValueError, "k is on meta; expected the device of q, cpu"),
    ({"q": zeros(4, 32, dtype=torch.int32)}, ValueError, "q is torch.int32; expected torch.float32 or torch.bfloat16 or torch.float16"),
    ({"q": None}, TypeError, "q is a NoneType; expected a tensor (num_tokens, q_heads * head_size)"),
    ({"q": zeros(4, 64)[:, ::2]}, ValueError, "q has column stride 2; expected a contiguous last dimension"),
    ({"k": zeros(1, 16).expand(4, 16)}, ValueError, "k has row stride 0; expected at least its 16 columns"),
    ({"q": zeros(200).as_strided((4, 32), (31, 1))}, ValueError, "q has row stride 31; expected at least its 32 columns"),
)

MROPE = (
    ({"cos": zeros(3, 5, 6)}, ValueError, "cos has shape (3, 5, 6); expected (3, 4, 6)"),
    ({"sin": zeros(3, 5, 6)}, ValueError, "sin has shape (3, 5, 6); expected (3, 4, 6)"),
    ({"cos": zeros(4, 6)}, ValueError, "cos has shape (4, 6); expected (3, 4, 6)"),
    ({"sin": zeros(3, 4, 6, device="meta")}, ValueError, "sin is on meta; expected the device of q, cpu"),
    ({"sin": zeros(3, 4, 12)[..., :6]}, ValueError, "sin has strides (48, 12, 1); expected a contiguous tensor"),
    ({"cos": zeros(3, 4, 6, dtype=torch.float16)}, ValueError, "cos is torch.float16; expected the dtype of sin, torch.float32"),
    ({"cos": 1.0}, TypeError, "cos is a float; expected a tensor (3, 4, 6)"),
)

POSITIONS = (
    ({"positions": zeros(2, 4, dtype=torch.int64)}, ValueError, "positions has shape (2, 4); expected (3, 4)"),
    ({"positions": zeros(3, dtype=torch.int64)}, ValueError, "positions has shape (3,); expected (4,)"),
    ({"positions": zeros(3, 4)}, ValueError, "positions is torch.float32; expected torch.int64 or torch.int32"),
    ({"positions": zeros(3, 4, dtype=torch.int64, device="meta")}, ValueError, "positions is on meta; expected the device of q, cpu"),
    ({"positions": [1]}, TypeError, "positions is a list; expected a tensor (3, 4)"),
    ({"cos_sin_cache": zeros(9, 6)}, ValueError, "cos_sin_cache has shape (9, 6); expected (max_position, 12)"),
    ({"cos_sin_cache": zeros(9, 12, device="meta")}, ValueError, "cos_sin_cache is on meta; expected the device of q, cpu"),
    ({"positions": torch.full((4,), 9), "validate": True}, ValueError, "positions holds 9; expected 0 to 8, the rows of cos_sin_cache"),
    ({"positions": torch.tensor([8, 0, -3, 9]), "validate": True}, ValueError, "positions holds -3; expected 0 to 8"),
)


def starts(*values):
    return torch.tensor(values, dtype=torch.int32)


SLOT_MAPPING = (
    ({"cp_interleave": 3}, ValueError, "cp_interleave is 3; expected a divisor of manager_block_size 8"),
    ({"cp_interleave": 0}, ValueError, "cp_interleave is 0; expected at least 1"),
    ({"kernel_block_size": 3}, ValueError, "kernel_block_size is 3; expected a divisor of manager_block_size 8"),
    ({"kernel_block_size": 0}, ValueError, "kernel_block_size is 0; expected at least 1"),
    ({"manager_block_size": -8}, ValueError, "manager_block_size is -8; expected at least 1"),
    ({"cp_world_size": 2, "cp_rank": 2}, ValueError, "cp_rank is 2; expected less than cp_world_size 2"),
    ({"cp_rank": -1}, ValueError, "cp_rank is -1; expected at least 0"),
    ({"cp_world_size": 0}, ValueError, "cp_world_size is 0; expected at least 1"),
    ({"num_reqs": -1}, ValueError, "num_reqs is -1; expected at least 0"),
    ({"num_reqs": 2.0}, TypeError, "num_reqs is 2.0 (float); expected an int"),
    ({"num_reqs": 3}, ValueError, "query_start_loc has 3 elements; expected at least num_reqs + 1 = 4"),
    ({"num_reqs": 0}, ValueError, "num_reqs is 0; expected at least 1, because positions has 5 tokens"),
    ({"block_table": zeros(1, 5, dtype=torch.int32)}, ValueError, "block_table has 1 rows; expected at least num_reqs 2"),
    ({"block_table": zeros(4, 5, dtype=torch.int64)}, ValueError, "block_table is torch.int64; expected torch.int32"),
    ({"block_table": zeros(4, 8, dtype=torch.int32)[:, ::2]}, ValueError, "block_table has column stride 2; expected 1"),
    ({"block_table": zeros(4, dtype=torch.int32)}, ValueError, "block_table has shape (4,); expected (rows, columns)"),
    ({"block_table": zeros(4, 5, dtype=torch.int32, device="meta")}, ValueError, "block_table is on meta; expected the device of pos"),
    ({"slot_mapping": zeros(7, dtype=torch.int64, device="meta")}, ValueError, "slot_mapping is on meta; expected the device of positions"),
    ({"slot_mapping": zeros(4, dtype=torch.int64)}, ValueError, "slot_mapping has 4 elements; expected at least num_tokens 5"),
    ({"slot_mapping": zeros(7, dtype=torch.int32)}, ValueError, "slot_mapping is torch.int32; expected torch.int64"),
    ({"slot_mapping": zeros(14, dtype=torch.int64)[::2]}, ValueError, "slot_mapping has stride 2; expected a contiguous vector"),
    ({"positions": zeros(5, dtype=torch.int32)}, ValueError, "positions is torch.int32; expected torch.int64"),
    ({"positions": zeros(1, 5, dtype=torch.int64)}, ValueError, "positions has shape (1, 5); expected a vector"),
    ({"query_start_loc": [0, 2, 5]}, TypeError, "query_start_loc is a list; expected a tensor of torch.int32"),
    ({"query_start_loc": zeros(3, dtype=torch.int64)}, ValueError, "query_start_loc is torch.int64; expected torch.int32"),
    ({"query_start_loc": starts(0, 6, 5), "validate": True}, ValueError, "query_start_loc[2] is 5; expected at least the one before it, 6"),
    ({"query_start_loc": starts(0, 2, 4), "validate": True}, ValueError, "query_start_loc[2] is 4; expected num_tokens 5"),
    ({"query_start_loc": starts(1, 2, 5), "validate": True}, ValueError, "query_start_loc[0] is 1; expected 0"),
    ({"positions": torch.tensor([0, 1, -7, 3, -2]), "validate": True}, ValueError, "positions[2] is -7; expected at least 0"),
)

MISUSE = [
    pytest.param(launcher, *line, id=f"{launcher.__name__}: {line[2]}")
    for launcher, lines in (
        (bilinear_pos_embed, BILINEAR),
        (mrope, BOTH_MROPE + MROPE),
        (mrope_from_positions, BOTH_MROPE + POSITIONS),
        (slot_mapping, SLOT_MAPPING),
    )
    for line in lines
]


@pytest.fixture
def launches():
    """The launches of the test, none of which runs."""
    seen = []
    with triton_adapter.intercept_launches(lambda launch, _proceed: seen.append(launch)):
        yield seen


def contents(arguments):
    return {name: value.clone() for name, value in arguments.items() if isinstance(value, torch.Tensor) and value.device.type == "cpu"}


@pytest.mark.parametrize(("launcher", "changes", "error", "message"), MISUSE)
def test_a_wrong_argument_is_named_before_anything_is_launched_or_written(launcher, changes, error, message, launches):
    arguments = ARGUMENTS[launcher](**changes)
    before = contents(arguments)
    with pytest.raises(error) as caught:
        launcher(**arguments)
    op = "mrope" if launcher is mrope_from_positions else launcher.__name__
    assert str(caught.value).startswith(f"{op}: {message}")
    assert launches == []
    assert all(torch.equal(arguments[name], value) for name, value in before.items())


@LAUNCHERS
def test_the_arguments_that_misuse_starts_from_are_right(launcher, launches):
    launcher(**ARGUMENTS[launcher]())
    assert len(launches) == 1


@pytest.mark.parametrize("name", ["positions", "query_start_loc", "block_table"])
def test_slots_over_an_input_are_refused(name, launches):
    arguments = slot_arguments()
    room = torch.zeros(100, dtype=torch.int64)
    room[: arguments["positions"].numel()] = arguments["positions"]
    shared = {"positions": room[:5], "query_start_loc": room.view(torch.int32)[:3], "block_table": room.view(torch.int32)[:20].view(4, 5)}
    with pytest.raises(ValueError, match=f"slot_mapping overlaps {name} in memory; expected an output of its own"):
        slot_mapping(**arguments | {name: shared[name], "slot_mapping": room[1:8]})
    assert launches == []

"""Offsets past 2**31 elements are right: on the CPU with rows far apart in a sparse file, on a GPU with all of the memory."""

from __future__ import annotations

import pytest
import torch

from difftest import triton_adapter
from difftest.engines import engine_named
from kernels.bilinear_pos_embed import bilinear_pos_embed
from kernels.mrope import mrope
from kernels.slot_mapping import slot_mapping
from tests.planted.defects import PlantedDefect, planted_kernel_module

FAR = 2**30 + 8
"""Distance of rows: the third starts past 2**31."""
ROW_IN_32_BITS = PlantedDefect(
    "row offset in int32",
    "bilinear_pos_embed",
    (("output_ptr + pid.to(tl.int64) * HIDDEN_DIM", "output_ptr + pid * HIDDEN_DIM"),),
    ("out of bounds",),
)
TOKEN_IN_32_BITS = PlantedDefect(
    "token in int32", "mrope", (("token = tl.program_id(0).to(tl.int64)", "token = tl.program_id(0)"),), ("out of bounds",)
)
TABLE_ROW_IN_32_BITS = PlantedDefect(
    "table row in int32",
    "slot_mapping",
    (("request.to(tl.int64) * block_table_stride", "request * block_table_stride"),),
    ("out of bounds",),
)
needs_gpu = pytest.mark.gpu  # 4 GB of rows are written


@pytest.fixture
def rows_apart(tmp_path):
    """Three rows, far apart in gigabytes of a sparse file: only what is touched takes room."""

    def rows(width, dtype):
        file = str(tmp_path / "rows")
        return torch.from_file(file, shared=True, size=2 * FAR + width, dtype=dtype).as_strided((3, width), (FAR, 1))

    return rows


def rotate(launch, q):
    q.copy_(torch.arange(48).view(3, 16))
    k = torch.zeros(3, 16, dtype=torch.float16)
    quarter_turn = {"cos": torch.zeros(3, 3, 8, dtype=torch.float16), "sin": torch.ones(3, 3, 8, dtype=torch.float16)}
    with engine_named("simulator").activate():
        launch(q, k, **quarter_turn, mrope_section=(3, 3, 2), head_size=16, rotary_dim=16, interleaved=False, neox_style=True)
    return q.tolist()


def test_tokens_far_apart_are_rotated_in_place(rows_apart):
    rows = torch.arange(48.0).view(3, 16)
    assert rotate(mrope, rows_apart(16, torch.float16)) == torch.cat([-rows[:, 8:], rows[:, :8]], dim=1).tolist()


def test_a_token_in_32_bits_is_noticed(rows_apart):
    with planted_kernel_module(TOKEN_IN_32_BITS) as module, pytest.raises(Exception, match="outside `q_ptr`"):
        rotate(module.mrope, rows_apart(16, torch.float16))


def slots(launch, table):
    table.copy_(torch.tensor([[1, 2], [3, 4], [5, 2**31 - 1]]))
    out = torch.zeros(4, dtype=torch.int64)
    starts = torch.tensor([0, 1, 2, 4], dtype=torch.int32)
    with engine_named("simulator").activate():
        launch(starts, torch.tensor([3, 17, 3, 17]), table, out, num_reqs=3, kernel_block_size=16, manager_block_size=16)
    return out.tolist()


def test_table_rows_far_apart_and_the_largest_block_are_mapped(rows_apart):
    assert slots(slot_mapping, rows_apart(2, torch.int32)) == [19, 65, 83, (2**31 - 1) * 16 + 1]


def test_a_table_row_in_32_bits_is_noticed(rows_apart):
    with planted_kernel_module(TABLE_ROW_IN_32_BITS) as module, pytest.raises(Exception, match="outside `block_table_ptr`"):
        slots(module.slot_mapping, rows_apart(2, torch.int32))


def widths_of_scalar_offsets(launch):
    """Return the integer types by which single pointers, such as that of a row, are moved in the kernel's IR."""
    texts = []

    def to_ttir(source, _jit, target, options):
        texts.append(triton_adapter.ttir(source, target, options))
        return texts[-1]

    with (
        triton_adapter.offline_driver("cuda:90"),
        triton_adapter.intercept_compiles(to_ttir),
        triton_adapter.intercept_launches(lambda start, _proceed: start.jit.warmup(*start.args, grid=start.grid, **start.kwargs)),
    ):
        launch(torch.zeros(9, 24), 1, 4, 2, 3, 2, torch.float32)
    offsets = [line.split("(!tt.ptr<f32>, ")[1].split(")")[0] for line in texts[0].splitlines() if "addptr" in line and "(!tt.ptr" in line]
    return set(offsets)


def test_the_rows_of_the_position_embedding_are_found_by_64_bits():
    assert widths_of_scalar_offsets(bilinear_pos_embed) == {"i64"}


def test_a_row_in_32_bits_is_noticed():
    with planted_kernel_module(ROW_IN_32_BITS) as module:
        assert widths_of_scalar_offsets(module.bilinear_pos_embed) == {"i32", "i64"}


@needs_gpu
def test_a_long_video_has_equal_frames():
    weight = torch.randn(48 * 48, 1152, device="cuda").to(torch.bfloat16)
    frames = bilinear_pos_embed(weight, 400, 60, 80, 48, 2, torch.bfloat16).view(400, -1)
    assert frames.numel() > 2**31
    assert torch.equal(frames[0], bilinear_pos_embed(weight, 1, 60, 80, 48, 2, torch.bfloat16).view(-1))
    assert all(torch.equal(frame, frames[0]) for frame in frames)


@needs_gpu
def test_a_long_prompt_is_rotated_to_its_last_token():
    tokens, half = 262_200, 64
    q = torch.ones(tokens, 64 * 128, device="cuda", dtype=torch.bfloat16)
    k = torch.ones(tokens, 128, device="cuda", dtype=torch.bfloat16)
    angles = torch.rand(3, tokens, half, device="cuda").to(torch.bfloat16)
    assert q.numel() > 2**31
    mrope(q, k, angles, angles, (24, 20, 20), 128, 128, interleaved=True, neox_style=True)
    assert torch.equal(q.view(tokens, 64, 128), k.view(tokens, 1, 128).expand(-1, 64, -1))
    assert torch.equal(q[-100:, :half], torch.zeros_like(q[-100:, :half]))

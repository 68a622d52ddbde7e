"""The batches that slot mapping is tested with: ragged requests, positions, block tables, context-parallel ranks, and real block sizes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from hypothesis import strategies as st

from difftest.block_tables import block_table_tensor
from difftest.case import Case
from difftest.strategies import block_tables, extents, query_start_locs, seeds
from difftest.tensors import Tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_BLOCKS = (
    (16, 16, 1, 0, 1),
    (32, 16, 1, 0, 1),
    (528, 16, 1, 0, 1),
    (1, 1, 1, 0, 1),
    (4, 4, 2, 1, 1),
    (16, 16, 2, 0, 16),
    (64, 16, 4, 3, 4),
    (128, 64, 8, 5, 16),
)
"""(manager block, kernel block, world size, rank, interleave): each is a compile key, so there are few."""

_TILE = 1024
_MAX_REQUESTS = 20
_MAX_TOKENS = 2500
_MAX_CONTEXT = 3000
_SPARE_START = 1 << 20

_PLAIN = Case(ids="permuted", shared_prefix=0, null_inside=False, tail="null", narrow=0, offset=0, row_gap=0)


@st.composite
def cases(draw: st.DrawFn, dtype: str) -> Case:
    """Draw a batch, its context, its table and its padding; shrinks towards one empty request without context."""
    blocks = draw(st.sampled_from(_BLOCKS))
    lengths = draw(query_start_locs(max_requests=_MAX_REQUESTS, max_tokens=_MAX_TOKENS, tile=_TILE))
    context = draw(extents(max_value=_MAX_CONTEXT))
    padding = draw(st.one_of(st.integers(0, 20), extents(_TILE, max_value=_TILE + 20)))
    return _case(
        dtype,
        blocks,
        lengths,
        context=context,
        order=draw(st.sampled_from(("ascending", "scattered", "below_zero"))),
        padding=max(padding, 0 if sum(lengths) else 1),
        table=draw(block_tables()),
        spare_requests=draw(st.integers(0, 3)),
        seed=draw(seeds()),
    )


def _case(dtype: str, blocks: tuple[int, ...], lengths: tuple[int, ...], *, context: int, padding: int, **fields: Any) -> Case:
    """Return a case that holds every extent of the launch, so that one can be moved and the others stay."""
    manager_block, kernel_block, world, rank, interleave = blocks
    longest = context + max(lengths, default=0)
    return Case(
        dtype=dtype,
        lengths=lengths,
        context=context,
        max_num_tokens=sum(lengths) + padding,
        columns=-(-longest // (manager_block * world)) * (manager_block // kernel_block),
        manager_block=manager_block,
        kernel_block=kernel_block,
        world=world,
        rank=rank,
        interleave=interleave,
        **fields,
    )


def inputs(case: Case, tensors: Tensors) -> dict[str, Any]:
    """Return the keyword arguments of the launch; tables and start locations have rows to spare, as those of an engine have."""
    positions = _positions(case)
    rows = len(case.lengths) + case.spare_requests
    starts = [0, *itertools.accumulate(case.lengths), *[_SPARE_START] * case.spare_requests]
    used = [*_columns_used(case, positions), *[0] * case.spare_requests]
    return {
        "query_start_loc": tensors.from_values(starts, torch.int32),
        "positions": tensors.from_values(torch.cat([*positions, torch.empty(0, dtype=torch.int64)]), torch.int64),
        "block_table": block_table_tensor(case.table, rows, case.columns, device=tensors.device, seed=case.seed, used=used),
        "slot_mapping": torch.empty(case.max_num_tokens, dtype=torch.int64, device=tensors.device),
        "num_reqs": len(case.lengths),
        "kernel_block_size": case.kernel_block,
        "manager_block_size": case.manager_block,
        "cp_world_size": case.world,
        "cp_rank": case.rank,
        "cp_interleave": case.interleave,
    }


def _positions(case: Case) -> list[torch.Tensor]:
    """Return the positions of each request: a run that starts within the context, positions in any order, or a run from below 0.

    The longest request reaches the end of the context, so that a table that is too narrow is too narrow for somebody.
    """
    chance = Tensors(case.seed, "cpu")
    starts = chance.integers("context", (len(case.lengths),), torch.int64, low=0, high=case.context).tolist()
    if case.lengths:
        starts[case.lengths.index(max(case.lengths))] = case.context
    if case.order == "scattered":
        scattered = [
            chance.integers(f"positions/{request}", (length,), torch.int64, low=0, high=start + max(length - 1, 0))
            for request, (start, length) in enumerate(zip(starts, case.lengths, strict=True))
        ]
        for start, each in zip(starts, scattered, strict=True):
            each[-1:] = start + len(each) - 1
        return scattered
    if case.order == "below_zero":
        starts = [-(length // 2) - 1 for length in case.lengths]
    return [torch.arange(start, start + length) for start, length in zip(starts, case.lengths, strict=True)]


def _columns_used(case: Case, positions: list[torch.Tensor]) -> list[int]:
    """Return how many columns of the table each request needs."""
    ends = [int(each.max()) + 1 if len(each) else 0 for each in positions]
    across_ranks, columns_a_block = case.manager_block * case.world, case.manager_block // case.kernel_block
    return [-(-max(end, 0) // across_ranks) * columns_a_block for end in ends]


def examples(dtype: str) -> Mapping[str, Case]:
    """Return batches of serving engines by what they are: block sizes, requests x tokens, and the length that is padded to."""
    return {
        "1 x 1, block 16, padded to 8192": _real(dtype, (16, 16, 1, 0, 1), (1,), 8192, context=100),
        "64 x 1, block 32, padded to 2048": _real(dtype, (32, 32, 1, 0, 1), (1,) * 64, 2048, context=4000),
        "256 x 1, block 128, padded to 8192": _real(dtype, (128, 128, 1, 0, 1), (1,) * 256, 8192, context=32_000),
        "1024 x 1, block 256, padded to 2048": _real(dtype, (256, 256, 1, 0, 1), (1,) * 1024, 2048, context=10_000),
        "16 x 512, block 16, no padding": _real(dtype, (16, 16, 1, 0, 1), (512,) * 16, 8192, context=0),
        "64 x 128, block 64, padded to 16384": _real(dtype, (64, 64, 1, 0, 1), (128,) * 64, 16_384, context=2000),
        "hybrid 64/16": _real(dtype, (64, 16, 1, 0, 1), (700, 1, 1, 0, 1300), 2048, context=500),
        "hybrid 128/64": _real(dtype, (128, 64, 1, 0, 1), (700, 1, 1, 0, 1300), 2048, context=500),
        "hybrid 528/16": _real(dtype, (528, 16, 1, 0, 1), (700, 1, 1, 0, 1300), 2048, context=500),
        "context of 1M, 8 ranks": _real(dtype, (16, 16, 8, 7, 16), (1, 1, 500), 2048, context=1_048_000),
        "context of 1M, 2 ranks token by token": _real(dtype, (128, 128, 2, 1, 1), (1, 1, 500), 2048, context=1_048_000),
        "a table two columns short": _real(dtype, (16, 16, 1, 0, 1), (40, 3, 90), 2048, context=200, table=_PLAIN.replace(narrow=2)),
        "block ids up to 2**31 - 1": _real(dtype, (16, 16, 1, 0, 1), (40, 3, 90), 2048, context=200, table=_PLAIN.replace(ids="huge")),
        "only padding": _real(dtype, (16, 16, 1, 0, 1), (), 2048, context=0),
    }


def _real(
    dtype: str, blocks: tuple[int, ...], lengths: tuple[int, ...], max_num_tokens: int, *, context: int, table: Case = _PLAIN
) -> Case:
    padding = max_num_tokens - sum(lengths)
    return _case(dtype, blocks, lengths, context=context, padding=padding, order="ascending", table=table, spare_requests=2, seed=0)


def cut(case: Case, limit: int) -> Case:
    """Return the case with fewer requests, and less padding where the limit leaves no room for it."""
    ends = itertools.accumulate(case.lengths)
    lengths = tuple(length for length, end in zip(case.lengths, ends, strict=True) if end <= limit)
    padding = min(case.max_num_tokens - sum(case.lengths), limit - sum(lengths))
    return case.replace(lengths=lengths, max_num_tokens=sum(lengths) + padding)


def through_token_counts(case: Case) -> Iterable[Case]:
    """Yield the case as one request of 1 token, of a multiple of 16, and of neither; all other extents stay."""
    roomy = case.replace(max_num_tokens=40, context=0)
    return (roomy.replace(lengths=(tokens,)) for tokens in (1, 16, 17))


def through_padded_lengths(case: Case) -> Iterable[Case]:
    """Yield the case as one token in a mapping of 1 slot, of a multiple of 16, and of neither."""
    short = case.replace(lengths=(1,), context=0)
    return (short.replace(max_num_tokens=slots) for slots in (1, 16, 17))

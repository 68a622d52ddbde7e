"""Slot mapping of a paged KV cache: for each token of a batch, the slot that its key and value go to, or PAD.

A manager block of `KVB` tokens is `R` kernel blocks of `block_size`. With context parallelism over `ws` ranks a virtual block of `KVB * ws`
tokens is dealt out in runs of `il`; a token that another rank holds gets PAD here. So does one whose block is not in the table.
"""

from __future__ import annotations

import itertools

import torch
import triton
import triton.language as tl

PAD_SLOT = -1
"""The slot of a token that is not stored here."""
TILE_TOKENS = 1024
"""Tokens that one pass of a program maps."""


@triton.jit(do_not_specialize=["num_tokens", "max_num_tokens"])
def slot_mapping_kernel(
    query_start_loc_ptr,
    positions_ptr,
    block_table_ptr,
    slot_mapping_ptr,
    num_tokens,
    max_num_tokens,
    block_table_stride,
    block_table_width,
    block_size,
    KVB: tl.constexpr,
    R: tl.constexpr,
    ws: tl.constexpr,
    rank: tl.constexpr,
    il: tl.constexpr,
    TILE: tl.constexpr,
    PAD: tl.constexpr,
):
    """Map the tokens of request `program_id(0)`; the last program pads `[num_tokens, max_num_tokens)`."""
    request = tl.program_id(0)
    lane = tl.arange(0, TILE)
    if request == tl.num_programs(0) - 1:
        # tl.cast, because an argument equal to 1 that is specialized is a constant, which has no .to().
        first_pad = tl.cast(num_tokens, tl.int64)
        for tile_start in range(first_pad, max_num_tokens, TILE):
            token = tile_start + lane
            tl.store(slot_mapping_ptr + token, PAD, mask=token < max_num_tokens)
    else:
        start = tl.load(query_start_loc_ptr + request).to(tl.int64)
        end = tl.load(query_start_loc_ptr + request + 1).to(tl.int64)
        # 64 bits: many requests with a long context pass 2**31 table entries.
        table_row_ptr = block_table_ptr + request.to(tl.int64) * block_table_stride
        for tile_start in range(start, end, TILE):
            token = tile_start + lane
            in_request = token < end
            position = tl.load(positions_ptr + token, mask=in_request, other=-1)
            virtual_block = position // (KVB * ws)
            in_virtual = position - virtual_block * (KVB * ws)
            local = (in_virtual // il) % ws == rank
            offset = (in_virtual // (ws * il)) * il + in_virtual % il
            column = virtual_block * R + offset // block_size
            # A position below 0 divides towards 0, into a block of its own request: it has no slot.
            mapped = in_request & (position >= 0) & local & (column < block_table_width)
            block = tl.load(table_row_ptr + column, mask=mapped, other=0)
            # Block ids go up to 2**31 - 1: the product needs 64 bits.
            slot = block.to(tl.int64) * block_size + offset % block_size
            tl.store(slot_mapping_ptr + token, tl.where(mapped, slot, PAD), mask=in_request)


def slot_mapping(
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    block_table: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    num_reqs: int,
    kernel_block_size: int,
    manager_block_size: int,
    cp_world_size: int = 1,
    cp_rank: int = 0,
    cp_interleave: int = 1,
    validate: bool = False,
) -> None:
    """Write the slot of every token into `slot_mapping[:num_tokens]`, and PAD (-1) over the rest of it.

    Args:
        query_start_loc: int32, at least `num_reqs + 1`, contiguous; request r has the tokens from element r to r + 1.
        positions: int64 `(num_tokens,)`, contiguous; the position of each token in its request. Below 0: PAD.
        block_table: int32 `(max_reqs, width)`, column stride 1; kernel block ids. A column past the width: PAD.
        slot_mapping: int64 `(max_num_tokens,)`, contiguous; the output.
        num_reqs: requests in the batch; some may be empty.
        kernel_block_size: tokens in a block of the table; divides `manager_block_size`.
        manager_block_size: tokens in a block of the cache manager.
        cp_world_size: context-parallel ranks.
        cp_rank: this rank.
        cp_interleave: consecutive tokens that one rank holds; divides `manager_block_size`.
        validate: check what only the device knows: query_start_loc and positions. This waits for the device: not for the hot path.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot work. Nothing was launched and nothing written.

    """
    _check_blocks(kernel_block_size, manager_block_size)
    _check_context_parallel(manager_block_size, cp_world_size, cp_rank, cp_interleave)
    _check_vectors(query_start_loc, positions, slot_mapping)
    _check_table(block_table, positions.device)
    _check_counts(query_start_loc, positions, block_table, slot_mapping, num_reqs)
    _check_separate(query_start_loc, positions, block_table, slot_mapping)
    if validate:
        _check_device_values(query_start_loc[: num_reqs + 1], positions)
    max_num_tokens = slot_mapping.shape[0]
    if max_num_tokens == 0:
        return
    slot_mapping_kernel[(num_reqs + 1,)](
        query_start_loc,
        positions,
        block_table,
        slot_mapping,
        positions.shape[0],
        max_num_tokens,
        block_table.stride(0),
        block_table.shape[1],
        kernel_block_size,
        KVB=manager_block_size,
        R=manager_block_size // kernel_block_size,
        ws=cp_world_size,
        rank=cp_rank,
        il=cp_interleave,
        TILE=TILE_TOKENS,
        PAD=PAD_SLOT,
    )


def _check_size(name: str, value: int, *, least: int) -> None:
    # A bool or a NumPy integer would be another compile key, or none at all.
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"slot_mapping: {name} is {value!r} ({type(value).__name__}); expected an int")
    if value < least:
        raise ValueError(f"slot_mapping: {name} is {value}; expected at least {least}")


def _check_blocks(kernel_block_size: int, manager_block_size: int) -> None:
    _check_size("kernel_block_size", kernel_block_size, least=1)
    _check_size("manager_block_size", manager_block_size, least=1)
    if manager_block_size % kernel_block_size:
        raise ValueError(
            f"slot_mapping: kernel_block_size is {kernel_block_size}; expected a divisor of manager_block_size {manager_block_size}"
        )


def _check_context_parallel(manager_block_size: int, cp_world_size: int, cp_rank: int, cp_interleave: int) -> None:
    _check_size("cp_world_size", cp_world_size, least=1)
    _check_size("cp_rank", cp_rank, least=0)
    _check_size("cp_interleave", cp_interleave, least=1)
    if cp_rank >= cp_world_size:
        raise ValueError(f"slot_mapping: cp_rank is {cp_rank}; expected less than cp_world_size {cp_world_size}")
    if manager_block_size % cp_interleave:
        raise ValueError(f"slot_mapping: cp_interleave is {cp_interleave}; expected a divisor of manager_block_size {manager_block_size}")


def _check_tensor(name: str, value: torch.Tensor, dtype: torch.dtype, *, dims: int) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"slot_mapping: {name} is a {type(value).__name__}; expected a tensor of {dtype}")
    if value.dtype != dtype:
        raise ValueError(f"slot_mapping: {name} is {value.dtype}; expected {dtype}")
    if value.dim() != dims:
        raise ValueError(f"slot_mapping: {name} has shape {tuple(value.shape)}; expected {'(rows, columns)' if dims == 2 else 'a vector'}")


def _check_vectors(query_start_loc: torch.Tensor, positions: torch.Tensor, slot_mapping: torch.Tensor) -> None:
    vectors = (
        ("positions", positions, torch.int64),
        ("query_start_loc", query_start_loc, torch.int32),
        ("slot_mapping", slot_mapping, torch.int64),
    )
    for name, value, dtype in vectors:
        _check_tensor(name, value, dtype, dims=1)
        if value.device != positions.device:
            raise ValueError(f"slot_mapping: {name} is on {value.device}; expected the device of positions, {positions.device}")
        if not value.is_contiguous():
            raise ValueError(f"slot_mapping: {name} has stride {value.stride(0)}; expected a contiguous vector")


def _check_table(block_table: torch.Tensor, device: torch.device) -> None:
    _check_tensor("block_table", block_table, torch.int32, dims=2)
    if block_table.device != device:
        raise ValueError(f"slot_mapping: block_table is on {block_table.device}; expected the device of positions, {device}")
    if block_table.shape[1] > 1 and block_table.stride(1) != 1:
        raise ValueError(f"slot_mapping: block_table has column stride {block_table.stride(1)}; expected 1 (the row stride is free)")


def _check_counts(
    query_start_loc: torch.Tensor, positions: torch.Tensor, block_table: torch.Tensor, slot_mapping: torch.Tensor, num_reqs: int
) -> None:
    _check_size("num_reqs", num_reqs, least=0)
    num_tokens = positions.shape[0]
    if query_start_loc.shape[0] < num_reqs + 1:
        raise ValueError(
            f"slot_mapping: query_start_loc has {query_start_loc.shape[0]} elements; expected at least num_reqs + 1 = {num_reqs + 1}"
        )
    if block_table.shape[0] < num_reqs:
        raise ValueError(f"slot_mapping: block_table has {block_table.shape[0]} rows; expected at least num_reqs {num_reqs}")
    if num_tokens > slot_mapping.shape[0]:
        raise ValueError(f"slot_mapping: slot_mapping has {slot_mapping.shape[0]} elements; expected at least num_tokens {num_tokens}")
    if num_reqs == 0 and num_tokens:
        raise ValueError(f"slot_mapping: num_reqs is 0; expected at least 1, because positions has {num_tokens} tokens")


def _check_separate(
    query_start_loc: torch.Tensor, positions: torch.Tensor, block_table: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    start, stop = _address_range(slot_mapping)
    for name, value in (("query_start_loc", query_start_loc), ("positions", positions), ("block_table", block_table)):
        first, last = _address_range(value)
        if first < stop and start < last:
            raise ValueError(f"slot_mapping: slot_mapping overlaps {name} in memory; expected an output of its own")


def _address_range(value: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of the first byte and of the byte after the last one; an empty tensor has none."""
    if value.numel() == 0:
        return 0, 0
    elements = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return value.data_ptr(), value.data_ptr() + elements * value.element_size()


def _check_device_values(query_start_loc: torch.Tensor, positions: torch.Tensor) -> None:
    starts = query_start_loc.tolist()
    if starts[0] != 0:
        raise ValueError(f"slot_mapping: query_start_loc[0] is {starts[0]}; expected 0")
    for index, (before, after) in enumerate(itertools.pairwise(starts)):
        if after < before:
            raise ValueError(f"slot_mapping: query_start_loc[{index + 1}] is {after}; expected at least the one before it, {before}")
    if starts[-1] != positions.shape[0]:
        raise ValueError(
            f"slot_mapping: query_start_loc[{len(starts) - 1}] is {starts[-1]}; "
            f"expected num_tokens {positions.shape[0]}, the length of positions"
        )
    if positions.numel() and (lowest := int(positions.min())) < 0:
        token = int(positions.argmin())
        raise ValueError(f"slot_mapping: positions[{token}] is {lowest}; expected at least 0")

"""What `slot_mapping` promises: for each token the slot of the paged KV cache that its key and value go to, or -1.

The cache is allocated in blocks of `manager_block_size` tokens and addressed in blocks of `kernel_block_size`; column c of a request's row
of `block_table` is the id of its c-th kernel block. With context parallelism a request's tokens go round `cp_world_size` ranks in runs of
`cp_interleave`, and a rank maps only its own. A token of another rank, of a negative position, or past the last column of the table has no
slot, nor has what `slot_mapping` holds beyond the last token.

Shapes: query_start_loc `(>= num_reqs + 1,)` int32; positions `(num_tokens,)` int64; block_table `(max_reqs, width)` int32; slot_mapping
`(max_num_tokens,)` int64, overwritten.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from difftest.contract import Contract
from difftest.policy import SpecializationPolicy
from difftest.spec import KernelSpec, register
from difftest.tolerance import exact
from kernels.slot_mapping import slot_mapping as launch
from kernels.slot_mapping import slot_mapping_kernel
from reference import _slot_mapping_cases as launches

NO_SLOT = -1


def torch_reference(
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
) -> tuple[torch.Tensor]:
    """Return the slots, `(max_num_tokens,)` int64, by the arithmetic of blocks: manager block, offset in it, kernel block."""
    token = torch.arange(len(positions), device=positions.device)
    request = torch.searchsorted(query_start_loc[1 : num_reqs + 1].long(), token, right=True)
    across_ranks = manager_block_size * cp_world_size
    manager_block = positions // across_ranks
    offset = positions - manager_block * across_ranks
    local = (offset // cp_interleave) % cp_world_size == cp_rank
    offset = (offset // (cp_world_size * cp_interleave)) * cp_interleave + offset % cp_interleave
    column = manager_block * (manager_block_size // kernel_block_size) + offset // kernel_block_size
    token = token[local & (positions >= 0) & (column < block_table.shape[1])]
    slots = torch.full_like(slot_mapping, NO_SLOT)
    block = block_table[request[token], column[token]].long()
    slots[token] = block * kernel_block_size + offset[token] % kernel_block_size
    return (slots,)


def scipy_reference(
    query_start_loc: np.ndarray,
    positions: np.ndarray,
    block_table: np.ndarray,
    slot_mapping: np.ndarray,
    *,
    num_reqs: int,
    kernel_block_size: int,
    manager_block_size: int,  # noqa: ARG001 - the runs of a rank are laid end to end whatever the manager's block
    cp_world_size: int = 1,
    cp_rank: int = 0,
    cp_interleave: int = 1,
) -> tuple[np.ndarray]:
    """Return the slots by a sparse matrix that selects block-table entries, one row a token.

    The tokens of one rank are numbered without gaps: run `p // interleave` goes to rank `run % world`, as its run number `run // world`.
    That number, divided by the kernel block, is column and offset: manager blocks do not appear.
    """
    request = np.repeat(np.arange(num_reqs), np.diff(query_start_loc[: num_reqs + 1]))
    run, within = np.divmod(positions, cp_interleave)
    run_of_rank, rank = np.divmod(run, cp_world_size)
    column, offset = np.divmod(run_of_rank * cp_interleave + within, kernel_block_size)
    rows, width = block_table.shape
    has_slot = (positions >= 0) & (rank == cp_rank) & (column < width)
    token = np.flatnonzero(has_slot)
    entry = request[token] * width + column[token]
    selection = sparse.csr_array((np.ones_like(token), (token, entry)), shape=(len(positions), rows * width))
    slots = np.full(slot_mapping.shape, NO_SLOT, dtype=np.int64)
    slots[token] = (selection @ block_table.ravel())[token] * kernel_block_size + offset[token]
    return (slots,)


# Stride, width and block size are specialized, each as 1, a multiple of 16 or neither: up to 27 keys.
SPEC = register(
    KernelSpec(
        name="slot_mapping",
        kernels=(slot_mapping_kernel,),
        launch=launch,
        outputs=("slot_mapping",),
        writes=("slot_mapping",),
        dtypes=("int64",),
        cases=launches.cases,
        inputs=launches.inputs,
        torch_reference=torch_reference,
        scipy_reference=scipy_reference,
        tolerance=exact,
        contract=Contract(
            do_not_specialize=("num_tokens", "max_num_tokens"),
            max_variants=27,
            vary={"num_tokens": launches.through_token_counts, "max_num_tokens": launches.through_padded_lengths},
        ),
        policies=(SpecializationPolicy("num_tokens_only", do_not_specialize=("num_tokens",)),),
        examples=launches.examples,
        cut=launches.cut,
        strict=True,
    )
)

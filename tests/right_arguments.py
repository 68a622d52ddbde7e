"""Arguments that each launch function takes, to change one at a time."""

from __future__ import annotations

import torch

from kernels.bilinear_pos_embed import bilinear_pos_embed
from kernels.mrope import mrope, mrope_from_positions
from kernels.slot_mapping import slot_mapping


def zeros(*shape, dtype=torch.float32, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


def bilinear_arguments(**changes):
    return {"weight": zeros(9, 8), "t": 2, "h": 4, "w": 2, "num_grid_per_side": 3, "merge_size": 2, "dtype": torch.float32} | changes


def mrope_arguments(**changes):
    # q and k are views of one buffer, as in an engine.
    fused = torch.ones(4, 80)
    arguments = {"q": fused[:, :32], "k": fused[:, 32:48], "cos": zeros(3, 4, 6), "sin": zeros(3, 4, 6)}
    layout = {"mrope_section": (2, 3, 1), "head_size": 16, "rotary_dim": 12, "interleaved": True, "neox_style": True}
    return arguments | layout | changes


def positions_arguments(**changes):
    arguments = mrope_arguments()
    del arguments["cos"], arguments["sin"]
    return arguments | {"positions": zeros(3, 4, dtype=torch.int64), "cos_sin_cache": zeros(9, 12)} | changes


def slot_arguments(**changes):
    tensors = {
        "query_start_loc": torch.tensor([0, 2, 5], dtype=torch.int32),
        "positions": torch.arange(5),
        "block_table": torch.ones(4, 6, dtype=torch.int32)[:, :5],
        "slot_mapping": torch.full((7,), 99),
    }
    return tensors | {"num_reqs": 2, "kernel_block_size": 4, "manager_block_size": 8} | changes


ARGUMENTS = {
    bilinear_pos_embed: bilinear_arguments,
    mrope: mrope_arguments,
    mrope_from_positions: positions_arguments,
    slot_mapping: slot_arguments,
}

"""Hand-made inputs of the three kernels, float64 and int64, one for each edge that a reference could get wrong."""

from __future__ import annotations

import torch


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def whole(seed: int, low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def bilinear(n: int, m: int, t: int, h: int, w: int, *, hidden: int = 5, zero_rows: bool = False) -> dict[str, object]:
    weight = normal(n + h, n * n, hidden)
    if zero_rows:
        weight[whole(7, 0, 2, n * n) > 0] = 0
        weight[0] = 1e5
    return {"weight": weight, "t": t, "h": h, "w": w, "num_grid_per_side": n, "merge_size": m, "dtype": torch.float64}


def mrope(section, head_size: int, rotary_dim: int, *, interleaved: bool, neox_style: bool, tokens: int = 9, text: bool = False):
    positions = whole(1, 0, 50, tokens) if text else whole(1, 0, 50, 3, tokens)
    heads = {"q": normal(2, tokens, 3 * head_size), "k": normal(3, tokens, head_size), "cos_sin_cache": normal(4, 50, rotary_dim)}
    sizes = {"mrope_section": section, "head_size": head_size, "rotary_dim": rotary_dim}
    return {"positions": positions, **heads, **sizes, "interleaved": interleaved, "neox_style": neox_style}


def slot_mapping(starts, table_shape, *, kbs: int, kvb: int, ws: int = 1, rank: int = 0, il: int = 1, low: int = 0, high=150, padding=5):
    tokens = starts[-1]
    return {
        "query_start_loc": torch.tensor([*starts, 9999]),
        "positions": whole(5, low, high, tokens),
        "block_table": whole(6, 1, 2**31 - 1, *table_shape),
        "slot_mapping": torch.full((tokens + padding,), 77),
        "num_reqs": len(starts) - 1,
        "kernel_block_size": kbs,
        "manager_block_size": kvb,
        "cp_world_size": ws,
        "cp_rank": rank,
        "cp_interleave": il,
    }


BILINEAR = {
    "finer than the table": bilinear(5, 2, 1, 8, 12),
    "coarser than the table": bilinear(9, 2, 1, 4, 6),
    "exact gather": bilinear(6, 2, 1, 6, 6),
    "no merging": bilinear(7, 1, 1, 5, 9),
    "merge of three": bilinear(7, 3, 1, 6, 9),
    "one row": bilinear(4, 1, 1, 1, 7),
    "one column": bilinear(4, 1, 1, 7, 1),
    "one patch": bilinear(4, 1, 1, 1, 1),
    "table of one cell": bilinear(1, 2, 2, 4, 6),
    "three frames": bilinear(3, 2, 3, 2, 4),
    "no frame": bilinear(3, 2, 0, 2, 4),
    "zero rows beside large ones": bilinear(2, 1, 1, 60, 70, zero_rows=True),
    "last row rounds past the table": bilinear(48, 1, 1, 24, 47),
}
MROPE = {
    "in runs": mrope((2, 3, 5), 20, 20, interleaved=False, neox_style=True),
    "in turn": mrope((4, 3, 3), 20, 20, interleaved=True, neox_style=True),
    "in runs, neighbours paired": mrope((2, 3, 5), 20, 20, interleaved=False, neox_style=False),
    "in turn, neighbours paired": mrope((4, 3, 3), 20, 20, interleaved=True, neox_style=False),
    "partial": mrope((4, 3, 1), 24, 16, interleaved=True, neox_style=True),
    "partial, neighbours paired": mrope((1, 3, 4), 24, 16, interleaved=False, neox_style=False),
    "section cut at the last channel": mrope((0, 2, 6), 16, 16, interleaved=True, neox_style=True),
    "one plane": mrope((8, 0, 0), 16, 16, interleaved=True, neox_style=True),
    "no first plane": mrope((0, 5, 3), 16, 16, interleaved=False, neox_style=True),
    "text": mrope((2, 3, 3), 16, 16, interleaved=False, neox_style=True, text=True),
    "one token": mrope((2, 3, 3), 16, 16, interleaved=True, neox_style=True, tokens=1),
    "no token": mrope((2, 3, 3), 16, 16, interleaved=True, neox_style=False, tokens=0),
}
SLOT_MAPPING = {
    "one block size": slot_mapping((0, 7, 20), (3, 12), kbs=16, kvb=16),
    "two block sizes": slot_mapping((0, 7, 20), (3, 12), kbs=16, kvb=64),
    "empty requests": slot_mapping((0, 0, 4, 4, 9, 9), (8, 12), kbs=16, kvb=32),
    "first rank": slot_mapping((0, 30), (2, 9), kbs=8, kvb=16, ws=4, rank=0, il=4),
    "last rank": slot_mapping((0, 30), (2, 9), kbs=8, kvb=16, ws=4, rank=3, il=4),
    "ranks token by token": slot_mapping((0, 30), (2, 9), kbs=8, kvb=32, ws=2, rank=1, il=1),
    "ranks block by block": slot_mapping((0, 30), (2, 9), kbs=8, kvb=32, ws=2, rank=1, il=32),
    "narrow table": slot_mapping((0, 20, 40), (3, 2), kbs=16, kvb=16),
    "negative positions": slot_mapping((0, 30), (2, 9), kbs=16, kvb=16, low=-20),
    "no padding": slot_mapping((0, 9), (1, 12), kbs=1, kvb=1, high=12, padding=0),
    "only padding": slot_mapping((0,), (2, 4), kbs=16, kvb=16),
    "table without columns": slot_mapping((0, 3), (1, 0), kbs=16, kvb=16),
}

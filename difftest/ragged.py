"""Ragged batches: from the lengths of the requests to their start locations."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch

from difftest.errors import InvalidCase
from difftest.tensors import Tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from difftest.case import Case


def query_start_loc_tensor(
    lengths: Sequence[int], *, device: torch.device | str, dtype: torch.dtype = torch.int32, layout: Case | None = None
) -> torch.Tensor:
    """Return where each request starts and where the last one ends, `(len(lengths) + 1,)`: 0 and the running sums of the lengths.

    Raises:
        InvalidCase: when a length is negative.

    """
    for position, length in enumerate(lengths):
        if length < 0:
            raise InvalidCase(f"query_start_loc: request {position} has {length} tokens; give lengths from 0 up")
    return Tensors(0, device).from_values([0, *itertools.accumulate(lengths)], dtype, layout)

"""What `bilinear_pos_embed` promises: the position embeddings of a patch grid, interpolated from a square table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from reference._bilinear_interpolation import interpolation_scales, scipy_interpolation, torch_interpolation


def torch_reference(
    weight: torch.Tensor, t: int, h: int, w: int, num_grid_per_side: int, merge_size: int, dtype: torch.dtype
) -> tuple[torch.Tensor]:
    """Return `(t*h*w, hidden)` rows in `dtype`, rounded where the kernel rounds; corners of table and patch grid coincide."""
    last = num_grid_per_side - 1
    h_scale, w_scale = (last / (extent - 1) if extent > 1 else 0.0 for extent in (h, w))
    return (torch_interpolation(weight, t, h, w, h_scale, w_scale, num_grid_per_side, merge_size, dtype),)


def scipy_reference(weight: np.ndarray, t: int, h: int, w: int, num_grid_per_side: int, merge_size: int, dtype: Any) -> tuple[np.ndarray]:
    """Return `(t*h*w, hidden)` rows in float64 by `RegularGridInterpolator`, at the scales that the kernel is given."""
    steps = _cells_per_patch(h, w, num_grid_per_side)
    return (scipy_interpolation(weight, t, h, w, *steps, num_grid_per_side, merge_size, dtype),)


def scales(weight: np.ndarray, t: int, h: int, w: int, num_grid_per_side: int, merge_size: int, dtype: Any) -> tuple[np.ndarray]:
    """Return the sum of `|weight * value|` of each element, `(t*h*w, hidden)`."""
    steps = _cells_per_patch(h, w, num_grid_per_side)
    return (interpolation_scales(weight, t, h, w, *steps, num_grid_per_side, merge_size, dtype),)


def _cells_per_patch(h: int, w: int, num_grid: int) -> np.ndarray:
    """Return how many cells of the table one patch spans along h and along w; 0 where there is one patch."""
    patches = np.array([h, w])
    return np.where(patches > 1, (num_grid - 1) / np.maximum(patches - 1, 1), 0.0)

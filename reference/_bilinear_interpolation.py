"""What bilinear interpolation of a position-embedding table computes, with the two scales given.

The table `weight`, `(num_grid * num_grid, hidden)`, holds one embedding per cell of a square grid. Row i of a frame belongs to patch
`(row, column)` of an `h x w` grid, counted block by block of `merge_size x merge_size` patches. Its embedding is interpolated between the
four cells around `(row * h_scale, column * w_scale)`, and a frame is repeated t times.

This file registers nothing: `bilinear_pos_embed` computes the scales from the grid, `bilinear_pos_embed_kernel` draws them.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.interpolate import RegularGridInterpolator

_CANCELLED_SHARE = 0.25


def torch_interpolation(
    weight: torch.Tensor, t: int, h: int, w: int, h_scale: float, w_scale: float, num_grid: int, merge_size: int, dtype: torch.dtype
) -> torch.Tensor:
    """Return `(t*h*w, hidden)` rows, rounded where the kernel rounds: coordinates and weights in float32, each weight cast to `dtype`.

    The weights come from `w11 = dh*dw; w10 = dh - w11; w01 = dw - w11; w00 = (1 - dh) - w01`, which rounds differently from four products.
    Products and sums are in the promotion of `dtype` and the table's dtype. A float64 table gives float64 throughout, with the scales
    still rounded to float32: the kernel is given those.
    """
    exact = weight.dtype == torch.float64
    output = torch.float64 if exact else dtype
    row, column = _patches_in_merge_order(h, w, merge_size, weight.device)
    h_floor, h_ceil, dh = _cells(row, h_scale, num_grid, torch.float64 if exact else torch.float32)
    w_floor, w_ceil, dw = _cells(column, w_scale, num_grid, torch.float64 if exact else torch.float32)
    w11 = dh * dw
    w10 = dh - w11
    w01 = dw - w11
    w00 = (1 - dh) - w01
    w00, w01, w10, w11 = (each.to(output)[:, None] for each in (w00, w01, w10, w11))
    table = weight.unflatten(0, (num_grid, num_grid))
    floor_row = w00 * table[h_floor, w_floor] + w01 * table[h_floor, w_ceil]
    frame = (floor_row + w10 * table[h_ceil, w_floor]) + w11 * table[h_ceil, w_ceil]
    return frame.to(output).repeat(t, 1)


def _patches_in_merge_order(h: int, w: int, merge_size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return row and column of each patch of a frame, `(h*w,)` each, block by block."""
    row, column = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    blocks = (h // merge_size, merge_size, w // merge_size, merge_size)
    return row.reshape(blocks).permute(0, 2, 1, 3).flatten(), column.reshape(blocks).permute(0, 2, 1, 3).flatten()


def _cells(index: torch.Tensor, scale: float, num_grid: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the cell at or before `index * scale`, the one after it, and the fraction between them."""
    coordinate = index.to(dtype) * torch.tensor(scale, dtype=torch.float32, device=index.device).to(dtype)
    floor = coordinate.floor()
    before = floor.long()
    return before, (before + 1).clamp(max=num_grid - 1), coordinate - floor


def scipy_interpolation(
    weight: np.ndarray, t: int, h: int, w: int, h_scale: float, w_scale: float, num_grid: int, merge_size: int
) -> np.ndarray:
    """Return `(t*h*w, hidden)` rows in float64, by an interpolator on the grid.

    Coordinates are clamped to the grid: in float64 `(h-1) * h_scale` passes the last cell for 10 of the first 298 heights.
    """
    if num_grid == 1:
        return np.tile(weight, (t * h * w, 1))
    axis = np.arange(num_grid)
    table = weight.reshape(num_grid, num_grid, -1)
    frame = RegularGridInterpolator((axis, axis), table, method="linear")(_points(h, w, h_scale, w_scale, num_grid, merge_size))
    return np.tile(frame, (t, 1))


def _points(h: int, w: int, h_scale: float, w_scale: float, num_grid: int, merge_size: int) -> np.ndarray:
    """Return the grid coordinates of each row of a frame, `(h*w, 2)` float64 within the grid."""
    return _coordinates(h, w, h_scale, w_scale, merge_size).clip(0, num_grid - 1)


def _coordinates(h: int, w: int, h_scale: float, w_scale: float, merge_size: int) -> np.ndarray:
    """Return `index * scale` along h and w for each row of a frame, `(h*w, 2)` float64, exact for scales rounded to float32."""
    block, within = np.divmod(np.arange(h * w), merge_size**2)
    block_row, block_column = np.divmod(block, max(w // merge_size, 1))
    row = block_row * merge_size + within // merge_size
    column = block_column * merge_size + within % merge_size
    return np.stack([row * np.float64(np.float32(h_scale)), column * np.float64(np.float32(w_scale))], axis=-1)


def interpolation_scales(
    weight: np.ndarray, t: int, h: int, w: int, h_scale: float, w_scale: float, num_grid: int, merge_size: int, relative_ulp: float
) -> np.ndarray:
    """Return the size of the terms of each element, `(t*h*w, hidden)` float64: the sum of `|weight * value|`, and what rounding adds to it.

    The interpolation weights are differences, and what cancels in them leaves its rounding behind: `(1 - dh) - w01` is accurate to one
    rounding of `w01`, however small it is. So a quarter of what cancelled counts as a term of the same value. And a kernel computes
    coordinates in float32: their rounding moves the point, and near a cell's end into the next cell. So the rounding of the point's
    coordinates, in units of the output's ULP, counts as a weight of every value around. A cell that is hit exactly has neither. Values that
    are not finite count as 0: an element that is finite has none among its terms.

    `relative_ulp` is the ULP of 1.0 in the output dtype; `docs/decisions/bilinear-scale.md` says why.
    """
    points = _points(h, w, h_scale, w_scale, num_grid, merge_size)
    (h_floor, w_floor), (dh, dw) = np.floor(points).astype(np.int64).T, (points % 1).T
    h_ceil, w_ceil = np.minimum(h_floor + 1, num_grid - 1), np.minimum(w_floor + 1, num_grid - 1)
    both, only_h, only_w, neither = dh * dw, dh * (1 - dw), (1 - dh) * dw, (1 - dh) * (1 - dw)
    table = np.abs(np.nan_to_num(weight, nan=0.0, posinf=0.0, neginf=0.0)).reshape(num_grid, num_grid, -1)
    terms = (
        (both, 0.0, table[h_ceil, w_ceil]),
        (only_h, both, table[h_ceil, w_floor]),
        (only_w, both, table[h_floor, w_ceil]),
        (neither, both + only_w, table[h_floor, w_floor]),
    )
    frame = sum((share + _CANCELLED_SHARE * cancelled)[:, None] * value for share, cancelled, value in terms)
    frame += _moved_by_rounding(table, points, _coordinates(h, w, h_scale, w_scale, merge_size)) / relative_ulp
    return np.tile(frame, (t, 1))


def _moved_by_rounding(table: np.ndarray, points: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """Return how much the float32 rounding of the coordinates can move each element, `(rows, hidden)`."""
    last = len(table) - 1
    rounded = coordinates.astype(np.float32).astype(np.float64)
    moved = np.abs(rounded - coordinates) + np.maximum(coordinates - last, 0)
    floor = np.floor(points).astype(np.int64)
    # Rounded up onto the next cell: the point is then taken from that cell and the one after it.
    crossed = np.floor(rounded) > floor
    around = np.zeros((len(points), table.shape[-1]))
    for h_step in (0, 1, 2):
        for w_step in (0, 1, 2):
            touched = (h_step < 2) | crossed[:, 0]
            touched &= (w_step < 2) | crossed[:, 1]
            values = table[np.minimum(floor[:, 0] + h_step, last), np.minimum(floor[:, 1] + w_step, last)]
            around += touched[:, None] * values
    return moved.sum(axis=1)[:, None] * around

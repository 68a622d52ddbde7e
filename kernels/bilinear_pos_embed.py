"""Bilinear interpolation of a learned position-embedding table, written in spatial-merge order (Qwen3-VL vision tower).

`weight` holds one embedding for each cell of an `N x N` grid. For a patch grid `(t, h, w)` the table is interpolated to `h x w` (align
corners) and repeated for `t` frames, and rows are written so that each `M x M` block of patches that is merged later is contiguous.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

SUPPORTED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MAX_ROWS = 2**31 - 1
"""One program a row: the largest grid that a launch can have."""
MAX_BLOCK_D = 1024
"""Elements of a row that one pass of the column loop holds."""


@triton.jit(do_not_specialize=["H", "W"])
def bilinear_pos_embed_kernel(
    embed_ptr,
    output_ptr,
    H,
    W,
    h_scale,
    w_scale,
    NUM_GRID: tl.constexpr,
    M_SIZE: tl.constexpr,
    HIDDEN_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Write row `program_id(0)` of the output, `(t * H * W, HIDDEN_DIM)`, both tensors contiguous."""
    pid = tl.program_id(0)
    in_frame = pid % (H * W)

    # Merge order: blocks of M x M patches in raster order, patches in raster order within a block.
    block = in_frame // (M_SIZE * M_SIZE)
    in_block = in_frame % (M_SIZE * M_SIZE)
    blocks_across = W // M_SIZE
    row = (block // blocks_across) * M_SIZE + in_block // M_SIZE
    col = (block % blocks_across) * M_SIZE + in_block % M_SIZE

    h_pos = row.to(tl.float32) * h_scale
    w_pos = col.to(tl.float32) * w_scale
    h_floor = tl.floor(h_pos)
    w_floor = tl.floor(w_pos)
    dh = h_pos - h_floor
    dw = w_pos - w_floor
    h0 = h_floor.to(tl.int64)
    w0 = w_floor.to(tl.int64)
    h1 = tl.minimum(h0 + 1, NUM_GRID - 1)
    w1 = tl.minimum(w0 + 1, NUM_GRID - 1)

    # In float32 and in this order; the four direct products round differently. First index h, second w; 0 floor, 1 ceil.
    w11 = dh * dw
    w10 = dh - w11
    w01 = dw - w11
    w00 = (1.0 - dh) - w01
    out_dtype = output_ptr.dtype.element_ty
    w00 = w00.to(out_dtype)
    w01 = w01.to(out_dtype)
    w10 = w10.to(out_dtype)
    w11 = w11.to(out_dtype)

    e00_ptr = embed_ptr + (h0 * NUM_GRID + w0) * HIDDEN_DIM
    e01_ptr = embed_ptr + (h0 * NUM_GRID + w1) * HIDDEN_DIM
    e10_ptr = embed_ptr + (h1 * NUM_GRID + w0) * HIDDEN_DIM
    e11_ptr = embed_ptr + (h1 * NUM_GRID + w1) * HIDDEN_DIM
    # A long video passes 2**31 elements: the row offset is 64 bits wide.
    row_ptr = output_ptr + pid.to(tl.int64) * HIDDEN_DIM
    for start in range(0, HIDDEN_DIM, BLOCK_D):
        column = start + tl.arange(0, BLOCK_D)
        in_row = column < HIDDEN_DIM
        e00 = tl.load(e00_ptr + column, mask=in_row)
        e01 = tl.load(e01_ptr + column, mask=in_row)
        e10 = tl.load(e10_ptr + column, mask=in_row)
        e11 = tl.load(e11_ptr + column, mask=in_row)
        value = ((w00 * e00 + w01 * e01) + w10 * e10) + w11 * e11
        tl.store(row_ptr + column, value.to(out_dtype), mask=in_row)


def bilinear_pos_embed(
    weight: torch.Tensor, t: int, h: int, w: int, num_grid_per_side: int, merge_size: int, dtype: torch.dtype
) -> torch.Tensor:
    """Return the position embeddings of a patch grid, `(t * h * w, hidden)` in `dtype`, rows in spatial-merge order.

    Args:
        weight: table, `(num_grid_per_side ** 2, hidden)`, contiguous; float32, bfloat16 or float16.
        t: frames; 0 gives an empty tensor. Frames are bitwise equal.
        h: patches down, a multiple of `merge_size`.
        w: patches across, a multiple of `merge_size`.
        num_grid_per_side: cells along each side of the learned grid (N).
        merge_size: side of the blocks that are merged later (M).
        dtype: of the output; the table's, or one of the two is float32.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot work. Nothing was launched.

    """
    _check_table(weight, num_grid_per_side)
    _check_dtypes(weight, dtype)
    _check_grid(t, h, w, merge_size)
    hidden = weight.shape[1]
    output = torch.empty((t * h * w, hidden), dtype=dtype, device=weight.device)
    if output.numel() == 0:
        return output
    bilinear_pos_embed_kernel[(t * h * w,)](
        weight,
        output,
        h,
        w,
        _scale(num_grid_per_side, h),
        _scale(num_grid_per_side, w),
        NUM_GRID=num_grid_per_side,
        M_SIZE=merge_size,
        HIDDEN_DIM=hidden,
        BLOCK_D=min(triton.next_power_of_2(hidden), MAX_BLOCK_D),
    )
    return output


def _scale(num_grid_per_side: int, patches: int) -> float:
    """Return the step on the learned grid of one patch: always a float, because an integer 0 would be another compile key."""
    return (num_grid_per_side - 1) / (patches - 1) if patches > 1 else 0.0


def _check_table(weight: torch.Tensor, num_grid_per_side: int) -> None:
    if not isinstance(weight, torch.Tensor):
        raise TypeError(f"bilinear_pos_embed: weight is a {type(weight).__name__}; expected a tensor (num_grid_per_side**2, hidden)")
    _check_size("num_grid_per_side", num_grid_per_side, least=1)
    if weight.dim() != 2 or weight.shape[0] != num_grid_per_side**2:
        raise ValueError(
            f"bilinear_pos_embed: weight has shape {tuple(weight.shape)}; expected (num_grid_per_side**2, hidden) "
            f"= ({num_grid_per_side**2}, hidden) for num_grid_per_side {num_grid_per_side}"
        )
    if weight.device.type == "meta":
        raise ValueError("bilinear_pos_embed: weight is on device meta, which holds no data; expected a tensor on the launch device")
    if not weight.is_contiguous():
        raise ValueError(f"bilinear_pos_embed: weight has strides {weight.stride()}; expected a contiguous table, call .contiguous() once")


def _check_dtypes(weight: torch.Tensor, dtype: torch.dtype) -> None:
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"bilinear_pos_embed: dtype is {dtype!r}; expected a torch.dtype")
    for name, value in (("weight.dtype", weight.dtype), ("dtype", dtype)):
        if value not in SUPPORTED_DTYPES:
            raise ValueError(f"bilinear_pos_embed: {name} is {value}; expected one of {', '.join(map(str, SUPPORTED_DTYPES))}")
    if dtype != weight.dtype and torch.float32 not in (dtype, weight.dtype):
        raise ValueError(
            f"bilinear_pos_embed: dtype is {dtype} with a table of {weight.dtype}; expected equal dtypes, or one of the two torch.float32"
        )


def _check_grid(t: int, h: int, w: int, merge_size: int) -> None:
    _check_size("merge_size", merge_size, least=1)
    for name, value in (("t", t), ("h", h), ("w", w)):
        _check_size(name, value, least=0)
    for name, value in (("h", h), ("w", w)):
        if value % merge_size:
            raise ValueError(f"bilinear_pos_embed: {name} is {value}; expected a multiple of merge_size {merge_size}")
    if t * h * w > MAX_ROWS:
        raise ValueError(f"bilinear_pos_embed: t * h * w is {t} * {h} * {w} = {t * h * w} rows; expected at most {MAX_ROWS}")


def _check_size(name: str, value: int, *, least: int) -> None:
    # A bool or a NumPy integer would be another compile key, or none at all.
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"bilinear_pos_embed: {name} is {value!r} ({type(value).__name__}); expected an int")
    if value < least:
        raise ValueError(f"bilinear_pos_embed: {name} is {value}; expected at least {least}")

"""Multimodal rotary embedding: rotates q and k in place by angles from three position planes (Qwen2-VL, Qwen3-VL, GLM-V).

`mrope_section = (t, h, w)` says how many of the `rotary_dim / 2` channels follow the time, height and width position. Chunked: the first t
channels are T, the next h are H, the rest W. Interleaved: THWTHW...TT, that is channel c is H when `c % 3 == 1 and c < 3 * h`, W when
`c % 3 == 2 and c < 3 * w`, else T. Pairs are halves (NeoX: x[j], x[j + rd/2]) or neighbours (GPT-J: x[2j], x[2j + 1]).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

SUPPORTED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MAX_TILE = 2048
"""Pairs that one pass of the head loop holds: padded heads x padded channels."""


@triton.jit
def _rotate_heads(
    row_ptr,
    cos,
    sin,
    pair,
    in_rotary,
    NUM_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HALF_ROTARY: tl.constexpr,
    NEOX_STYLE: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
):
    """Rotate the pairs of every head of one row in place, in the dtype of `sin`."""
    if NEOX_STYLE:
        first = pair
        second = pair + HALF_ROTARY
    else:
        first = 2 * pair
        second = 2 * pair + 1
    for start in range(0, NUM_HEADS, BLOCK_HEADS):
        head = start + tl.arange(0, BLOCK_HEADS)
        # Both sides of the tile are padded to powers of two: beyond them lie the rest of the head, the next row and the end of the buffer.
        inside = (head < NUM_HEADS)[:, None] & in_rotary[None, :]
        head_ptr = row_ptr + (head * HEAD_SIZE)[:, None]
        x1 = tl.load(head_ptr + first[None, :], mask=inside).to(sin.dtype)
        x2 = tl.load(head_ptr + second[None, :], mask=inside).to(sin.dtype)
        y1 = x1 * cos[None, :] - x2 * sin[None, :]
        y2 = x2 * cos[None, :] + x1 * sin[None, :]
        tl.store(head_ptr + first[None, :], y1.to(row_ptr.dtype.element_ty), mask=inside)
        tl.store(head_ptr + second[None, :], y2.to(row_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["num_tokens"])
def mrope_kernel(
    q_ptr,
    k_ptr,
    cos_ptr,
    sin_ptr,
    num_tokens,
    q_row_stride,
    k_row_stride,
    NUM_Q_HEADS: tl.constexpr,
    NUM_K_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HALF_ROTARY: tl.constexpr,
    SECTION_T: tl.constexpr,
    SECTION_H: tl.constexpr,
    SECTION_W: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    NEOX_STYLE: tl.constexpr,
    BLOCK_Q_HEADS: tl.constexpr,
    BLOCK_K_HEADS: tl.constexpr,
    BLOCK_PAIRS: tl.constexpr,
):
    """Rotate token `program_id(0)` of q and k in place; cos and sin are `(3, num_tokens, HALF_ROTARY)`, contiguous."""
    # 64 bits: a row offset passes 2**31 elements from 262,145 tokens of 64 heads of 128.
    token = tl.program_id(0).to(tl.int64)
    pair = tl.arange(0, BLOCK_PAIRS)
    in_rotary = pair < HALF_ROTARY
    if INTERLEAVED:
        is_h = (pair % 3 == 1) & (pair < 3 * SECTION_H)
        is_w = (pair % 3 == 2) & (pair < 3 * SECTION_W)
    else:
        is_h = (pair >= SECTION_T) & (pair < SECTION_T + SECTION_H)
        is_w = pair >= SECTION_T + SECTION_H
    plane = tl.where(is_w, 2, tl.where(is_h, 1, 0))
    angle = (plane.to(tl.int64) * num_tokens + token) * HALF_ROTARY + pair
    cos = tl.load(cos_ptr + angle, mask=in_rotary)
    sin = tl.load(sin_ptr + angle, mask=in_rotary)

    q_row_ptr = q_ptr + token * q_row_stride
    k_row_ptr = k_ptr + token * k_row_stride
    _rotate_heads(q_row_ptr, cos, sin, pair, in_rotary, NUM_Q_HEADS, HEAD_SIZE, HALF_ROTARY, NEOX_STYLE, BLOCK_Q_HEADS)
    _rotate_heads(k_row_ptr, cos, sin, pair, in_rotary, NUM_K_HEADS, HEAD_SIZE, HALF_ROTARY, NEOX_STYLE, BLOCK_K_HEADS)


def mrope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: Sequence[int],
    head_size: int,
    rotary_dim: int,
    *,
    interleaved: bool,
    neox_style: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `(q, k)`, rotated in place in their first `rotary_dim` elements of each head; the rest is not written.

    Args:
        q: `(num_tokens, q_heads * head_size)`; rows are contiguous, their stride is free (a view of a fused QKV buffer is fine).
        k: `(num_tokens, k_heads * head_size)`, likewise; must not overlap q.
        cos: `(3, num_tokens, rotary_dim / 2)`, contiguous; planes time, height, width.
        sin: as `cos`, in the same dtype. The arithmetic is in this dtype.
        mrope_section: channels `(t, h, w)`; their sum is `rotary_dim / 2`.
        head_size: elements of a head.
        rotary_dim: elements of a head that are rotated; even, at most `head_size`.
        interleaved: channels are laid out THWTHW...TT, not in three chunks.
        neox_style: pairs are halves of the rotary part, not neighbours.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot work. Nothing was launched, q and k are as they were.

    """
    _check_layout(mrope_section, head_size, rotary_dim, interleaved=interleaved, neox_style=neox_style)
    _check_rows(q, k, head_size)
    _check_angles(q, cos, sin, rotary_dim // 2)
    num_tokens = q.shape[0]
    if num_tokens == 0:
        return q, k
    q_heads = q.shape[1] // head_size
    k_heads = k.shape[1] // head_size
    section_t, section_h, section_w = mrope_section
    block_pairs = triton.next_power_of_2(rotary_dim // 2)
    mrope_kernel[(num_tokens,)](
        q,
        k,
        cos,
        sin,
        num_tokens,
        q.stride(0),
        k.stride(0),
        NUM_Q_HEADS=q_heads,
        NUM_K_HEADS=k_heads,
        HEAD_SIZE=head_size,
        HALF_ROTARY=rotary_dim // 2,
        SECTION_T=section_t,
        SECTION_H=section_h,
        SECTION_W=section_w,
        INTERLEAVED=interleaved,
        NEOX_STYLE=neox_style,
        BLOCK_Q_HEADS=_block_heads(q_heads, block_pairs),
        BLOCK_K_HEADS=_block_heads(k_heads, block_pairs),
        BLOCK_PAIRS=block_pairs,
    )
    return q, k


def mrope_from_positions(
    positions: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    *,
    mrope_section: Sequence[int],
    head_size: int,
    rotary_dim: int,
    interleaved: bool,
    neox_style: bool,
    validate: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `(q, k)`, rotated in place by the angles of their position ids.

    Args:
        positions: `(3, num_tokens)`, planes time, height, width; or `(num_tokens,)` for text, where the planes are equal. int64 or int32.
        q: as for `mrope`.
        k: as for `mrope`.
        cos_sin_cache: `(max_position, rotary_dim)`, each row `[cos | sin]`.
        mrope_section: as for `mrope`.
        head_size: as for `mrope`.
        rotary_dim: as for `mrope`.
        interleaved: as for `mrope`.
        neox_style: as for `mrope`.
        validate: check that every position is a row of the cache. This waits for the device: not for the hot path.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that cannot work. Nothing was launched, q and k are as they were.

    """
    _check_layout(mrope_section, head_size, rotary_dim, interleaved=interleaved, neox_style=neox_style)
    _check_rows(q, k, head_size)
    _check_positions(positions, cos_sin_cache, q, rotary_dim)
    if validate:
        _check_range(positions, cos_sin_cache.shape[0])
    planes = positions.expand(3, -1) if positions.dim() == 1 else positions
    # Two gathers, not one and a split: each comes out contiguous without a copy, however the positions lie in memory.
    half, rows = rotary_dim // 2, planes.reshape(-1)
    cos = cos_sin_cache[:, :half].index_select(0, rows).view(*planes.shape, half)
    sin = cos_sin_cache[:, half:].index_select(0, rows).view(*planes.shape, half)
    return mrope(q, k, cos, sin, mrope_section, head_size, rotary_dim, interleaved=interleaved, neox_style=neox_style)


def _block_heads(heads: int, block_pairs: int) -> int:
    """Return the heads of one pass: a power of two, so that the tile stays within `MAX_TILE`."""
    return min(triton.next_power_of_2(heads), max(MAX_TILE // block_pairs, 1))


def _check_layout(mrope_section: Sequence[int], head_size: int, rotary_dim: int, *, interleaved: bool, neox_style: bool) -> None:
    for name, flag in (("interleaved", interleaved), ("neox_style", neox_style)):
        if not isinstance(flag, bool):
            raise TypeError(f"mrope: {name} is {flag!r}; expected True or False")
    _check_size("head_size", head_size, least=1)
    _check_size("rotary_dim", rotary_dim, least=2)
    if rotary_dim % 2 or rotary_dim > head_size:
        raise ValueError(f"mrope: rotary_dim is {rotary_dim}; expected an even number, at most head_size {head_size}")
    if not isinstance(mrope_section, Sequence) or len(mrope_section) != 3:
        raise TypeError(f"mrope: mrope_section is {mrope_section!r}; expected three ints (t, h, w)")
    for plane, channels in zip("thw", mrope_section, strict=True):
        _check_size(f"mrope_section {plane}", channels, least=0)
    if sum(mrope_section) != rotary_dim // 2:
        raise ValueError(
            f"mrope: mrope_section is {tuple(mrope_section)} with sum {sum(mrope_section)}; "
            f"expected the sum rotary_dim / 2 = {rotary_dim // 2}"
        )


def _check_size(name: str, value: int, *, least: int) -> None:
    # A bool or a NumPy integer would be another compile key, or none at all.
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"mrope: {name} is {value!r} ({type(value).__name__}); expected an int")
    if value < least:
        raise ValueError(f"mrope: {name} is {value}; expected at least {least}")


def _check_rows(q: torch.Tensor, k: torch.Tensor, head_size: int) -> None:
    _check_tensor("q", q, SUPPORTED_DTYPES, ("num_tokens", "q_heads * head_size"))
    _check_tensor("k", k, SUPPORTED_DTYPES, (q.shape[0], "k_heads * head_size"), q.device)
    for name, rows in (("q", q), ("k", k)):
        _check_heads(name, rows, head_size)
    if _overlap(q, k):
        raise ValueError(
            f"mrope: k (row stride {k.stride(0)}) overlaps q (row stride {q.stride(0)}) in memory, and both are written; "
            "expected separate tensors, or views of one buffer with equal row strides and disjoint columns"
        )


def _check_tensor(
    name: str, value: torch.Tensor, dtypes: Sequence[torch.dtype], shape: Sequence[int | str], device: torch.device | None = None
) -> None:
    """Check type, dtype, shape and device; a string in `shape` names a free dimension."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"mrope: {name} is a {type(value).__name__}; expected a tensor {_shape_text(shape)}")
    if value.dtype not in dtypes:
        raise ValueError(f"mrope: {name} is {value.dtype}; expected {' or '.join(map(str, dtypes))}")
    if value.dim() != len(shape) or any(size != want for size, want in zip(value.shape, shape, strict=True) if isinstance(want, int)):
        raise ValueError(f"mrope: {name} has shape {tuple(value.shape)}; expected {_shape_text(shape)}")
    if device is not None and value.device != device:
        raise ValueError(f"mrope: {name} is on {value.device}; expected the device of q, {device}")


def _shape_text(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _check_heads(name: str, rows: torch.Tensor, head_size: int) -> None:
    num_tokens, width = rows.shape
    if width == 0 or width % head_size:
        raise ValueError(f"mrope: {name} has {width} columns; expected a positive multiple of head_size {head_size}")
    if rows.stride(1) != 1 and width > 1:
        raise ValueError(f"mrope: {name} has column stride {rows.stride(1)}; expected a contiguous last dimension")
    if rows.stride(0) < width and num_tokens > 1:
        raise ValueError(
            f"mrope: {name} has row stride {rows.stride(0)}; expected at least its {width} columns, "
            "because rows that share memory cannot be changed in place"
        )


def _overlap(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Return whether an element of q and one of k share memory, from addresses alone.

    Exact when the row strides are equal, as for views of one fused buffer. Otherwise the two must not even interleave.
    """
    rows = q.shape[0]
    if rows == 0:
        return False
    q_start, q_pitch, q_width = _rows_in_bytes(q)
    k_start, k_pitch, k_width = _rows_in_bytes(k)
    if k_start >= q_start + (rows - 1) * q_pitch + q_width or q_start >= k_start + (rows - 1) * k_pitch + k_width:
        return False
    if q_pitch != k_pitch or rows == 1:
        return True
    # Row j of k starts `gap` bytes into the period of row j + ahead of q, and reaches row j + ahead + 1 when it is wider than what is left.
    ahead, gap = divmod(k_start - q_start, q_pitch)
    return (gap < q_width and abs(ahead) < rows) or (gap + k_width > q_pitch and abs(ahead + 1) < rows)


def _rows_in_bytes(rows: torch.Tensor) -> tuple[int, int, int]:
    """Return the address of the first row, the distance from row to row, and the width of a row."""
    size = rows.element_size()
    return rows.data_ptr(), rows.stride(0) * size, rows.shape[1] * size


def _check_angles(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, half: int) -> None:
    for name, angles in (("cos", cos), ("sin", sin)):
        _check_tensor(name, angles, SUPPORTED_DTYPES, (3, q.shape[0], half), q.device)
        if not angles.is_contiguous():
            raise ValueError(f"mrope: {name} has strides {angles.stride()}; expected a contiguous tensor")
    if cos.dtype != sin.dtype:
        raise ValueError(f"mrope: cos is {cos.dtype}; expected the dtype of sin, {sin.dtype}")


def _check_positions(positions: torch.Tensor, cos_sin_cache: torch.Tensor, q: torch.Tensor, rotary_dim: int) -> None:
    text_only = isinstance(positions, torch.Tensor) and positions.dim() == 1
    shape = (q.shape[0],) if text_only else (3, q.shape[0])
    _check_tensor("positions", positions, (torch.int64, torch.int32), shape, q.device)
    _check_tensor("cos_sin_cache", cos_sin_cache, SUPPORTED_DTYPES, ("max_position", rotary_dim), q.device)


def _check_range(positions: torch.Tensor, max_position: int) -> None:
    if positions.numel() == 0:
        return
    lowest, highest = (int(extreme) for extreme in torch.aminmax(positions))
    if lowest < 0 or highest >= max_position:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"mrope: positions holds {wrong}; expected 0 to {max_position - 1}, the rows of cos_sin_cache")

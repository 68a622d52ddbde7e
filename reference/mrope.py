"""What `mrope_from_positions` promises: multimodal rotary embedding of q and k, in place.

Each token has three positions (time, height, width). Channel c of `rotary_dim / 2` takes its angle from one of them, as `mrope_section =
(t, h, w)` says: in runs (chunked) or in turn (interleaved). A head's pair `(x1, x2)` turns by that angle; NeoX style pairs element j with
`j + rotary_dim / 2`, GPT-J style pairs 2j with 2j + 1. Elements from `rotary_dim` on are passed through.

Shapes: positions `(3, tokens)`, or `(tokens,)` for text; q `(tokens, q_heads * head_size)`, k `(tokens, k_heads * head_size)`; the cache
`(max_position, rotary_dim)` holds the cosines, then the sines, of each channel.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from difftest.contract import Contract
from difftest.spec import KernelSpec, register
from difftest.tolerance import error_ratio
from kernels.mrope import mrope_from_positions, mrope_kernel
from reference import _mrope_cases as launches

Section = tuple[int, int, int]


def torch_reference(
    positions: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    *,
    mrope_section: Section,
    head_size: int,
    rotary_dim: int,
    interleaved: bool,
    neox_style: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q and k turned, each operation rounded in the dtype of the cache and the results cast to the dtype of q and k."""
    planes = positions if positions.ndim == 2 else positions.expand(3, -1)
    cos, sin = cos_sin_cache[planes].chunk(2, dim=-1)
    choose = _channels_in_turn if interleaved else _channels_in_runs
    cos, sin = choose(cos, mrope_section), choose(sin, mrope_section)
    return tuple(_turned(x, cos, sin, head_size, rotary_dim, neox_style=neox_style) for x in (q, k))


def _channels_in_runs(angles: torch.Tensor, section: Section) -> torch.Tensor:
    """Return `(tokens, channels)`: the first t channels of the first plane, the next h of the second, the last w of the third."""
    return torch.cat([run[plane] for plane, run in enumerate(angles.split(section, dim=-1))], dim=-1)


def _channels_in_turn(angles: torch.Tensor, section: Section) -> torch.Tensor:
    """Return `(tokens, channels)`: THWTHW... while h and w last, then T."""
    chosen = angles[0].clone()
    for plane in (1, 2):
        channels = slice(plane, 3 * section[plane], 3)
        chosen[:, channels] = angles[plane, :, channels]
    return chosen


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, head_size: int, rotary_dim: int, *, neox_style: bool) -> torch.Tensor:
    """Return `(tokens, heads * head_size)` with the pairs of every head turned."""
    heads = x.unflatten(-1, (-1, head_size))
    half = rotary_dim // 2
    first = slice(0, half) if neox_style else slice(0, rotary_dim, 2)
    second = slice(half, rotary_dim) if neox_style else slice(1, rotary_dim, 2)
    x1, x2 = heads[..., first].to(sin.dtype), heads[..., second].to(sin.dtype)
    c, s = cos[:, None], sin[:, None]
    turned = heads.clone()
    turned[..., first] = (x1 * c - x2 * s).to(x.dtype)
    turned[..., second] = (x2 * c + x1 * s).to(x.dtype)
    return turned.flatten(-2)


def scipy_reference(
    positions: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    cos_sin_cache: np.ndarray,
    *,
    mrope_section: Section,
    head_size: int,
    rotary_dim: int,
    interleaved: bool,
    neox_style: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return q and k in float64, multiplied by one sparse block-diagonal matrix of the rotations of all tokens."""
    rotation = _rotation(positions, cos_sin_cache, mrope_section, rotary_dim, interleaved=interleaved, neox_style=neox_style)
    return _applied(rotation, q, head_size, rotary_dim), _applied(rotation, k, head_size, rotary_dim)


def scales(
    positions: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    cos_sin_cache: np.ndarray,
    *,
    mrope_section: Section,
    head_size: int,
    rotary_dim: int,
    interleaved: bool,
    neox_style: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return `|x1*cos| + |x2*sin|` of each turned element, and `|x|` of those passed through."""
    rotation = abs(_rotation(positions, cos_sin_cache, mrope_section, rotary_dim, interleaved=interleaved, neox_style=neox_style))
    return _applied(rotation, np.abs(q), head_size, rotary_dim), _applied(rotation, np.abs(k), head_size, rotary_dim)


def _rotation(
    positions: np.ndarray, cache: np.ndarray, section: Section, rotary_dim: int, *, interleaved: bool, neox_style: bool
) -> sparse.csr_array:
    """Return `(tokens * rotary_dim, tokens * rotary_dim)` with a block `[[cos, -sin], [sin, cos]]` for every pair."""
    channel = np.arange(rotary_dim // 2)
    rows = np.broadcast_to(positions, (3, positions.shape[-1]))[_plane_of(channel, section, interleaved=interleaved)].T
    cos, sin = cache[rows, channel].ravel(), cache[rows, rotary_dim // 2 + channel].ravel()
    pair = np.stack([channel, channel + rotary_dim // 2] if neox_style else [2 * channel, 2 * channel + 1])
    first, second = (pair[:, None] + np.arange(len(rows))[:, None] * rotary_dim).reshape(2, -1)
    entries = np.concatenate([cos, -sin, sin, cos])
    at = np.concatenate([first, first, second, second]), np.concatenate([first, second, first, second])
    return sparse.csr_array((entries, at), shape=(len(rows) * rotary_dim,) * 2)


def _plane_of(channel: np.ndarray, section: Section, *, interleaved: bool) -> np.ndarray:
    """Return 0, 1 or 2 for each channel: the position that its angle comes from."""
    t, h, w = section
    if not interleaved:
        return np.searchsorted([t, t + h], channel, side="right")
    turn = channel % 3
    return np.where((turn == 1) & (channel < 3 * h), 1, np.where((turn == 2) & (channel < 3 * w), 2, 0))


def _applied(rotation: sparse.csr_array, x: np.ndarray, head_size: int, rotary_dim: int) -> np.ndarray:
    """Return `(tokens, heads * head_size)`: the matrix times the rotary elements, one column a head, and the rest as they are."""
    tokens = len(x)
    heads = x.reshape(tokens, x.shape[1] // head_size, head_size)
    columns = heads[..., :rotary_dim].transpose(0, 2, 1).reshape(tokens * rotary_dim, heads.shape[1])
    turned = (rotation @ columns).reshape(tokens, rotary_dim, heads.shape[1]).transpose(0, 2, 1)
    return np.concatenate([turned, heads[..., rotary_dim:]], axis=-1).reshape(x.shape)


# Fusion leaves out the rounding of one product of each element, so the error is at most that of the plain computation; twice that, and one
# ULP where that happens to be exact, is generous. Two row strides, each a multiple of 16 or not or 1, make up to nine keys.
SPEC = register(
    KernelSpec(
        name="mrope",
        kernels=(mrope_kernel,),
        launch=mrope_from_positions,
        outputs=("q", "k"),
        in_place=("q", "k"),
        dtypes=launches.DTYPES,
        cases=launches.cases,
        inputs=launches.inputs,
        torch_reference=torch_reference,
        scipy_reference=scipy_reference,
        scales=scales,
        tolerance=error_ratio(c=2.0, floor=1.0),
        contract=Contract(do_not_specialize=("num_tokens",), max_variants=9, vary={"num_tokens": launches.through_token_classes}),
        examples=launches.examples,
        cut=launches.cut,
        finite=launches.is_finite,
        strict=True,
    )
)

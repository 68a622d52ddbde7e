"""The launches that multimodal rotary embedding is tested with: heads, sections, positions, layouts, and the real models."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from hypothesis import strategies as st

from difftest.case import Case
from difftest.dtypes import dtype_named
from difftest.position_ids import position_ids_tensor
from difftest.strategies import extents, fills, position_ids, scalars, seeds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from difftest.tensors import Tensors

DTYPES = ("float32", "bfloat16", "float16", "float32_to_bfloat16")

_FIELDS = ("q_heads", "k_heads", "head_size", "rotary_dim", "section", "interleaved", "neox_style", "theta")

_MODELS = {
    "Qwen3-VL-2B": (16, 8, 128, 128, (24, 20, 20), True, True, 5e6),
    "Qwen3-VL-4B": (32, 8, 128, 128, (24, 20, 20), True, True, 5e6),
    "Qwen3-VL-8B": (32, 8, 128, 128, (24, 20, 20), True, True, 5e6),
    "Qwen3-VL-30B-A3B": (32, 4, 128, 128, (24, 20, 20), True, True, 5e6),
    "Qwen2-VL-7B": (28, 4, 128, 128, (16, 24, 24), False, True, 1e6),
    "Qwen2-VL-72B": (64, 8, 128, 128, (16, 24, 24), False, True, 1e6),
    "Qwen3.5": (16, 4, 256, 64, (11, 11, 10), True, True, 1e7),
    "GLM-4.1V-9B": (32, 2, 128, 64, (8, 12, 12), False, False, 1e4),
}

_TOKENS = {"Qwen3-VL-4B": 1, "Qwen3-VL-8B": 256, "Qwen3.5": 130, "GLM-4.1V-9B": 99, "Qwen2-VL-72B": 16}
"""Tokens of the models' cases; 64 for the others."""

_HEADS = (
    (3, 1, 16, 16, (3, 3, 2), True, True, 1e4),
    (5, 2, 24, 20, (4, 3, 3), False, False, 1e4),
    (3, 3, 32, 20, (4, 3, 3), True, False, 1e4),
    (12, 3, 96, 80, (10, 14, 16), False, True, 1e4),
    (2, 1, 64, 32, (0, 6, 10), True, True, 1e4),
    (96, 1, 8, 6, (3, 0, 0), False, True, 1e4),
    _MODELS["Qwen2-VL-7B"],
    _MODELS["Qwen3.5"],
    _MODELS["GLM-4.1V-9B"],
)
"""Each is a compile key, so there are few: heads that are no power of two, partial and odd rotary parts, sections with zeros or cut."""

_LAYOUTS = (
    Case(fused=False, offset=0, row_gap=0),
    Case(fused=False, offset=0, row_gap=0),
    Case(fused=True, offset=0, row_gap=0),
    Case(fused=True, offset=1, row_gap=0),
    Case(fused=False, offset=3, row_gap=5),
)
"""Tensors of their own, views of one QKV buffer (aligned or not), and rows with a gap: the row stride is then no multiple of 16."""

_MAX_ELEMENTS = 1 << 16
_MAX_TOKENS = 40
_MAX_POSITION = 512


@st.composite
def cases(draw: st.DrawFn, dtype: str) -> Case:
    """Draw heads, tokens by their specialization class or their edges, positions, a layout and a fill; shrinks towards one token."""
    heads = dict(zip(_FIELDS, draw(st.sampled_from(_HEADS)), strict=True))
    most = min(_MAX_TOKENS, _MAX_ELEMENTS // ((heads["q_heads"] + heads["k_heads"]) * heads["head_size"]))
    return Case(
        dtype=dtype,
        tokens=draw(_token_counts(most)),
        **heads,
        positions=draw(position_ids(max_position=_MAX_POSITION, text_1d=True)),
        layout=draw(st.sampled_from(_LAYOUTS)),
        fill=draw(fills(nonfinite=True)),
        seed=draw(seeds()),
    )


@functools.cache
def _token_counts(most: int) -> st.SearchStrategy[int]:
    return st.one_of(scalars(min_value=1, max_value=most), extents(16, min_value=1, max_value=most))


def inputs(case: Case, tensors: Tensors) -> dict[str, Any]:
    """Return the keyword arguments of the launch."""
    cache_dtype, dtype = cache_and_rows(case.dtype)
    q, k = _rows(case, tensors, dtype)
    cache = _cos_sin_cache(case.positions.max_position, case.rotary_dim, case.theta, cache_dtype)
    return {
        "positions": position_ids_tensor(case.positions, case.tokens, device=tensors.device, seed=case.seed),
        "q": q,
        "k": k,
        "cos_sin_cache": cache.to(tensors.device, copy=True),
        "mrope_section": case.section,
        "head_size": case.head_size,
        "rotary_dim": case.rotary_dim,
        "interleaved": case.interleaved,
        "neox_style": case.neox_style,
    }


def cache_and_rows(cell: str) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtypes of the cache, and of q and k, of a cell such as "float32_to_bfloat16"; "float32" is the dtype of all."""
    cache_name, _, rows_name = cell.partition("_to_")
    return dtype_named(cache_name), dtype_named(rows_name or cache_name)


def _rows(case: Case, tensors: Tensors, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q and k: tensors of their own, or views of one buffer whose rows are [q | k | v]."""
    layout = Case(offset=case.layout.offset, row_gap=case.layout.row_gap)
    widths = [heads * case.head_size for heads in (case.q_heads, case.k_heads, case.k_heads)]
    if case.layout.fused:
        buffer = tensors.floats("qkv", (case.tokens, sum(widths)), dtype, fill=case.fill, layout=layout)
        return buffer.split(widths, dim=1)[:2]
    return tuple(
        tensors.floats(name, (case.tokens, width), dtype, fill=case.fill, layout=layout)
        for name, width in zip("qk", widths, strict=False)
    )


@functools.lru_cache(maxsize=32)
def _cos_sin_cache(max_position: int, rotary_dim: int, theta: float, dtype: torch.dtype) -> torch.Tensor:
    """Return `(max_position, rotary_dim)`: cosines, then sines, of `position * theta ** (-2j / rotary_dim)`.

    The angle is a float32 product. Its cosine is taken in float64, so that every machine rounds it to the same bits.
    """
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
    frequencies = (theta**-exponents).float()
    angles = (torch.arange(max_position).float()[:, None] * frequencies).double()
    return torch.cat([angles.cos(), angles.sin()], dim=-1).to(dtype)


def examples(dtype: str) -> Mapping[str, Case]:
    """Return an image between text for every model, one model of them at half the heads, and a launch of no token."""
    real = {model: _real(dtype, heads, _TOKENS.get(model, 64)) for model, heads in _MODELS.items()}
    halved = (_MODELS["Qwen2-VL-7B"][0] // 2, _MODELS["Qwen2-VL-7B"][1] // 2, *_MODELS["Qwen2-VL-7B"][2:])
    return {**real, "Qwen2-VL-7B on two ranks": _real(dtype, halved, 17), "no token": _real(dtype, _HEADS[0], 0)}


def _real(dtype: str, heads: tuple[Any, ...], tokens: int) -> Case:
    """Return a launch on a fused buffer: a prompt that starts late in a long context, and whose image has 6 x 8 patches."""
    runs = (Case(kind="text", length=11), Case(kind="image", h=6, w=8), Case(kind="text", length=5))
    positions = Case(planes=3, max_position=8192, start=(7000, 7100, 7200), runs=runs)
    fields = dict(zip(_FIELDS, heads, strict=True))
    return Case(dtype=dtype, tokens=tokens, **fields, positions=positions, layout=_LAYOUTS[2], fill="normal", seed=0)


def cut(case: Case, limit: int) -> Case:
    """Return the case with fewer tokens, at least one of those it has: heads and sections stay."""
    tokens = max(limit // ((case.q_heads + case.k_heads) * case.head_size), 1)
    return case.replace(tokens=min(case.tokens, tokens))


def is_finite(case: Case) -> bool:
    """Return whether q and k of a case are finite; the cache always is."""
    return case.fill != "nonfinite"


def through_token_classes(case: Case) -> Iterable[Case]:
    """Yield the case with 1 token, a multiple of 16, and a number that is neither."""
    return (case.replace(tokens=tokens) for tokens in (1, 16, 17))

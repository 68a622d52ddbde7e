"""Whether tensors can be compared element by element: type, shape, then dtype. Nothing broadcasts."""

from __future__ import annotations

from typing import Any

import torch

from difftest.dtypes import dtype_name, is_judged
from difftest.outcome import FORM, OutputComparison


def form_mismatch(name: str, actual: Any, dtype: torch.dtype, *, like: torch.Tensor, **others: Any) -> OutputComparison | None:
    """Return why `actual` is not a strided tensor of `dtype` in the shape of `like`, or None when it is.

    `others` are what the output is compared with: a tensor of another shape among them is a mismatch too, as nothing broadcasts; None is
    not.
    """
    reason = _problem(actual, dtype, like) or _problem_of_others(like, others)
    return OutputComparison.rejected(name, FORM, f"{name}: {reason}") if reason else None


def _problem(actual: Any, dtype: torch.dtype, like: torch.Tensor) -> str:
    if not isinstance(actual, torch.Tensor):
        return f"got {type(actual).__name__}, expected a tensor of shape {tuple(like.shape)} and dtype {dtype_name(dtype)}"
    if actual.layout is not torch.strided:
        return f"got a tensor of layout {actual.layout}, expected a strided one"
    if actual.shape != like.shape:
        return f"got shape {tuple(actual.shape)}, expected {tuple(like.shape)}"
    if actual.dtype != dtype:
        return f"got dtype {dtype_name(actual.dtype)}, expected {dtype_name(dtype)}"
    return "" if is_judged(dtype) else f"dtype {dtype_name(dtype)} is not judged; return real floats, integers or bool"


def _problem_of_others(like: torch.Tensor, others: dict[str, Any]) -> str:
    for role, tensor in others.items():
        if tensor is not None and tensor.shape != like.shape:
            return f"the {role} has shape {tuple(tensor.shape)}, expected {tuple(like.shape)}"
    return ""

"""What `bilinear_pos_embed` promises: the position embeddings of a patch grid, interpolated from a square table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from difftest.contract import Contract
from difftest.spec import KernelSpec, register
from difftest.tolerance import error_ratio
from kernels.bilinear_pos_embed import bilinear_pos_embed, bilinear_pos_embed_kernel
from reference import _bilinear_cases as launches
from reference._bilinear_interpolation import interpolation_scales, scipy_interpolation, torch_interpolation

if TYPE_CHECKING:
    from difftest.case import Case
    from difftest.tensors import Tensors


def torch_reference(
    weight: torch.Tensor, t: int, h: int, w: int, num_grid_per_side: int, merge_size: int, dtype: torch.dtype
) -> tuple[torch.Tensor]:
    """Return `(t*h*w, hidden)` rows in `dtype`, rounded where the kernel rounds; corners of table and patch grid coincide."""
    last = num_grid_per_side - 1
    h_scale, w_scale = (last / (extent - 1) if extent > 1 else 0.0 for extent in (h, w))
    return (torch_interpolation(weight, t, h, w, h_scale, w_scale, num_grid_per_side, merge_size, dtype),)


def scipy_reference(
    weight: np.ndarray, t: int, h: int, w: int, num_grid_per_side: int, merge_size: int, dtype: object = None  # noqa: ARG001 - float64
) -> tuple[np.ndarray]:
    """Return `(t*h*w, hidden)` rows in float64 by `RegularGridInterpolator`, at the scales that the kernel is given."""
    steps = _cells_per_patch(h, w, num_grid_per_side)
    return (scipy_interpolation(weight, t, h, w, *steps, num_grid_per_side, merge_size),)


def scales(
    weight: np.ndarray, t: int, h: int, w: int, num_grid_per_side: int, merge_size: int, dtype: torch.dtype
) -> tuple[np.ndarray]:
    """Return the size of the terms of each element, `(t*h*w, hidden)`."""
    steps = _cells_per_patch(h, w, num_grid_per_side)
    return (interpolation_scales(weight, t, h, w, *steps, num_grid_per_side, merge_size, torch.finfo(dtype).eps),)


def _cells_per_patch(h: int, w: int, num_grid: int) -> np.ndarray:
    """Return how many cells of the table one patch spans along h and along w; 0 where there is one patch."""
    patches = np.array([h, w])
    return np.where(patches > 1, (num_grid - 1) / np.maximum(patches - 1, 1), 0.0)


def inputs(case: Case, tensors: Tensors) -> dict[str, Any]:
    """Return the keyword arguments of the launch."""
    sizes = {"t": case.t, "h": case.h, "w": case.w, "num_grid_per_side": case.num_grid, "merge_size": case.merge}
    return {"weight": launches.table(case, tensors), **sizes, "dtype": launches.table_and_output(case.dtype)[1]}


# Four products of rounded weights and three sums: 1.5 + 0.5 + 1.5 ULPs of the scale at most, with or without fusion, beside what the
# rounding of the coordinates moves, which the scale holds. The plain computation of a small output may be exact by luck: hence the floor.
SPEC = register(
    KernelSpec(
        name="bilinear_pos_embed",
        kernels=(bilinear_pos_embed_kernel,),
        launch=bilinear_pos_embed,
        outputs=("embeddings",),
        dtypes=launches.DTYPES,
        cases=launches.cases,
        inputs=inputs,
        torch_reference=torch_reference,
        scipy_reference=scipy_reference,
        scales=scales,
        tolerance=error_ratio(c=2.0, floor=4.0),
        contract=Contract(
            do_not_specialize=("H", "W"),
            max_variants=1,
            vary={"H": launches.through_classes("h"), "W": launches.through_classes("w")},
        ),
        examples=launches.examples,
        cut=launches.cut,
        finite=launches.is_finite,
        strict=True,
    )
)

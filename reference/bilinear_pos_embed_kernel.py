"""What `bilinear_pos_embed_kernel` promises for scales that are not those of its patch grid.

The launch function computes both scales, so its cases hold only ratios of grids. Here the kernel is started with drawn ones: 0.0, 1.0, tiny
ones, and values that float32 cannot represent, as long as no patch falls outside the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
from hypothesis import strategies as st

from difftest.contract import Contract
from difftest.spec import KernelSpec, register
from difftest.strategies import scales as interpolation_steps
from difftest.tolerance import error_ratio
from kernels.bilinear_pos_embed import bilinear_pos_embed_kernel
from reference import _bilinear_cases as launches
from reference._bilinear_interpolation import interpolation_scales, scipy_interpolation, torch_interpolation

if TYPE_CHECKING:
    import numpy as np

    from difftest.case import Case
    from difftest.tensors import Tensors

BLOCK_D = 256


def launch(
    weight: torch.Tensor, t: int, h: int, w: int, h_scale: float, w_scale: float, num_grid: int, merge_size: int, dtype: torch.dtype
) -> torch.Tensor:
    """Start the kernel with one program a row and return what it wrote, `(t*h*w, hidden)`."""
    hidden = weight.shape[1]
    output = torch.empty((t * h * w, hidden), dtype=dtype, device=weight.device)
    block = min(triton.next_power_of_2(hidden), BLOCK_D)
    bilinear_pos_embed_kernel[(t * h * w,)](weight, output, h, w, h_scale, w_scale, num_grid, merge_size, hidden, block)
    return output


def torch_reference(**arguments: Any) -> tuple[torch.Tensor]:
    """Return the rows rounded where the kernel rounds."""
    return (torch_interpolation(**arguments),)


def scipy_reference(*, dtype: object = None, **arguments: Any) -> tuple[np.ndarray]:  # noqa: ARG001 - float64 whatever the output is
    """Return the rows in float64 by an interpolator on the grid."""
    return (scipy_interpolation(**arguments),)


def scales(*, dtype: torch.dtype, **arguments: Any) -> tuple[np.ndarray]:
    """Return the sum of `|weight * value|` of each element."""
    return (interpolation_scales(**arguments, relative_ulp=torch.finfo(dtype).eps),)


@st.composite
def cases(draw: st.DrawFn, dtype: str) -> Case:
    """Draw a launch of the table, and for each side a scale that keeps the last patch within it."""
    case = draw(launches.cases(dtype))
    steps = {f"{side}_scale": min(draw(interpolation_steps()), _largest_step(case.num_grid, case[side])) for side in ("h", "w")}
    return case.replace(**steps)


def _largest_step(num_grid: int, patches: int) -> float:
    return (num_grid - 1) / max(patches - 1, 1)


def inputs(case: Case, tensors: Tensors) -> dict[str, Any]:
    """Return the keyword arguments of `launch`."""
    sizes = {name: case[name] for name in ("t", "h", "w", "h_scale", "w_scale", "num_grid")}
    dtype = launches.table_and_output(case.dtype)[1]
    return {"weight": launches.table(case, tensors), **sizes, "merge_size": case.merge, "dtype": dtype}


# As for the launch function.
SPEC = register(
    KernelSpec(
        name="bilinear_pos_embed_kernel",
        kernels=(bilinear_pos_embed_kernel,),
        launch=launch,
        outputs=("embeddings",),
        dtypes=("float32", "bfloat16"),
        cases=cases,
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
        cut=launches.cut,
        finite=launches.is_finite,
        strict=True,
    )
)

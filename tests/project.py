"""A small project outside this repository: one kernel, one reference, and ways to break them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from difftest.discovery import plugin_is_installed

ROOT = Path(__file__).resolve().parents[1]

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"])
def scale_kernel(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0.0)
    tl.store(y_ptr + i, x * factor, mask=inside)


def scale(x, factor):
    y = torch.empty_like(x)
    if x.numel():
        scale_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), factor, BLOCK=64)
    return y
"""

REFERENCE = """\
from hypothesis import strategies as st

from difftest import Case, Contract, KernelSpec, error_ratio, register
from difftest.strategies import extents, fills, seeds
from kernels.scale import scale, scale_kernel


def torch_reference(x, factor):
    return (x * factor,)


def scipy_reference(x, factor):
    import numpy as np

    return (np.multiply(x, factor),)


def scales(x, factor):
    return (abs(x * factor),)


def cases(dtype):
    return st.builds(
        Case, dtype=st.just(dtype), n=extents(tile=64, max_value=300), factor=st.sampled_from([2.0, 0.5, -1.0]), fill=fills(), seed=seeds()
    )


def inputs(case, tensors):
    import torch

    return {"x": tensors.floats("x", (case.n,), getattr(torch, case.dtype), fill=case.fill), "factor": case.factor}


def lengths(case):
    return [case.replace(n=n) for n in (1, 16, 17)]


SPEC = register(
    KernelSpec(
        name="scale",
        kernels=(scale_kernel,),
        launch=scale,
        outputs=("y",),
        dtypes=("float32",),
        cases=cases,
        inputs=inputs,
        torch_reference=torch_reference,
        scipy_reference=scipy_reference,
        scales=scales,
        tolerance=error_ratio(c=2.0, floor=1.0),
        contract=Contract(do_not_specialize=("n",), vary={"n": lengths}),
        examples=lambda dtype: {"one tile": Case(dtype=dtype, n=64, factor=2.0, fill="normal", seed=0)},
        strict=True,
    )
)
"""


def make_project(directory, *, kernel=(), reference=(), options=""):
    """Write the project; `kernel` and `reference` are (old, new) edits, each of which must apply once."""
    for name, text, edits in (("kernels/scale.py", KERNEL, kernel), ("reference/scale.py", REFERENCE, reference)):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(_edited(name, text, edits))
    (directory / "pyproject.toml").write_text(f'[tool.pytest.ini_options]\npythonpath = ["."]\n{options}\n')
    return directory


def _edited(name, text, edits):
    for old, new in edits:
        assert text.count(old) == 1, (name, old)
        text = text.replace(old, new)
    return text


def difftest(directory, *arguments, timeout_s=300, **environment):
    """Run the command line in the project."""
    return _run(directory, [sys.executable, "-m", "difftest.cli", *arguments], timeout_s, environment)


def pytest_in(directory, *arguments, timeout_s=300, **environment):
    """Run pytest in the project, with the plugin whether or not it is installed."""
    plugin = [] if plugin_is_installed() else ["-p", "difftest.plugin"]
    return _run(directory, [sys.executable, "-m", "pytest", *plugin, *arguments], timeout_s, environment)


def _run(directory, command, timeout_s, environment):
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TRITON_"))}
    seen = {**inherited, "PYTHONPATH": path, **environment}
    return subprocess.run(command, cwd=directory, env=seen, capture_output=True, text=True, timeout=timeout_s, check=False)

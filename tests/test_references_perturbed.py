"""Each reference, changed in one place, is contradicted by the other: neither is a copy of the other's mistakes."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest
import reference_inputs
import reference_perturbations

from difftest.spec import collecting

REFERENCES = Path(__file__).parent.parent / "reference"

def perturbed(file: str, old: str, new: str) -> types.ModuleType:
    """Return the reference that registers, built from sources of which `file` has one occurrence of `old` replaced."""
    changed = _module(file, (REFERENCES / f"{file}.py").read_text(), old, new)
    if file != "_bilinear_interpolation":
        return changed
    outer = _module("bilinear_pos_embed", (REFERENCES / "bilinear_pos_embed.py").read_text())
    for name in ("torch_interpolation", "scipy_interpolation", "interpolation_scales"):
        setattr(outer, name, getattr(changed, name))
    return outer


def _module(name: str, source: str, old: str = "", new: str = "") -> types.ModuleType:
    if old:
        assert source.count(old) == 1, f"{name}.py holds {old!r} {source.count(old)} times, not once: bring the table up to date"
    module = types.ModuleType(f"perturbed_{name}")
    with collecting():
        exec(compile(source.replace(old, new) if old else source, f"perturbed_{name}.py", "exec"), vars(module))  # noqa: S102
    return module


def objections(module: types.ModuleType, cases) -> list[str]:
    """Return the names of the cases on which the two references contradict each other, or one of them fails."""
    return [name for name, inputs in cases.items() if not _agree(module, inputs)]


def _agree(module: types.ModuleType, inputs) -> bool:
    arrays = {name: value.numpy() if hasattr(value, "numpy") else value for name, value in inputs.items()}
    try:
        rows = zip(module.torch_reference(**inputs), module.scipy_reference(**arrays), _scales(module, arrays), strict=True)
        return all(_close(one.numpy(), other, scale) for one, other, scale in rows)
    except (IndexError, ValueError, RuntimeError):
        return False


def _scales(module: types.ModuleType, arrays):
    return module.scales(**arrays) if hasattr(module, "scales") else (0,)


def _close(one: np.ndarray, other: np.ndarray, scale: np.ndarray) -> bool:
    assert one.dtype == other.dtype
    return one.shape == other.shape and bool((np.abs(one - other) <= 8 * np.finfo(np.float64).eps * scale).all())


def _rows():
    for name in ("BILINEAR", "MROPE", "SLOT_MAPPING"):
        for file, old, new in getattr(reference_perturbations, name):
            yield pytest.param(file, old, new, name, id=f"{file}: {old} -> {new}".replace("\n", " "))


@pytest.mark.parametrize(("file", "old", "new", "kernel"), list(_rows()))
def test_the_other_reference_objects_to_a_change(file, old, new, kernel):
    module = perturbed(file, old, new)
    assert objections(module, getattr(reference_inputs, kernel)), f"both references accept {new!r} in the place of {old!r}"


@pytest.mark.parametrize(("file", "kernel"), [("bilinear_pos_embed", "BILINEAR"), ("mrope", "MROPE"), ("slot_mapping", "SLOT_MAPPING")])
def test_unchanged_references_agree_on_every_edge(file, kernel):
    module = _module(file, (REFERENCES / f"{file}.py").read_text())
    assert objections(module, getattr(reference_inputs, kernel)) == []

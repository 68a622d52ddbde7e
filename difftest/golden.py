"""The trusted answers of one case, computed once for all policies."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from difftest.comparison import Comparison, compare_references
from difftest.errors import InvalidReference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from difftest.case import Case
    from difftest.spec import KernelSpec


@dataclass(frozen=True)
class Golden:
    """What the references say about one case.

    Attributes:
        baseline: outputs of the op-by-op torch reference, in the kernel's dtypes.
        high: outputs of the torch reference computed in float64.
        golden: outputs of the scipy reference, float64 or int64; for inputs that are not finite, `high`.
        scales: per output, the size of the terms that each element sums (float64); None for exact kernels.
        agreement: the comparison of `high` with the scipy reference; None where inputs are not finite.

    """

    baseline: tuple[torch.Tensor, ...]
    high: tuple[torch.Tensor, ...]
    golden: tuple[torch.Tensor, ...]
    scales: tuple[torch.Tensor | None, ...]
    agreement: Comparison | None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        tensors = [*self.baseline, *self.high, *self.golden, *(scale for scale in self.scales if scale is not None)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class GoldenCache:
    """The golden answers of the latest cases, least recently used first out, at most `limit_bytes`."""

    def __init__(self, limit_bytes: int = 1 << 29) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[tuple[Any, ...], Golden] = OrderedDict()
        self._bytes = 0

    def get(self, spec: KernelSpec, case: Case, inputs: Mapping[str, Any]) -> Golden:
        """Return the golden answer of a case; `inputs` are as the launch will get them, before it ran."""
        key = (spec.name, id(spec), case, str(_device(inputs)))
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        golden = compute_golden(spec, case, inputs)
        self._held[key] = golden
        self._bytes += golden.nbytes
        while self._bytes > self._limit_bytes and len(self._held) > 1:
            self._bytes -= self._held.popitem(last=False)[1].nbytes
        return golden


def compute_golden(spec: KernelSpec, case: Case, inputs: Mapping[str, Any]) -> Golden:
    """Return what both references say about a case.

    Raises:
        InvalidReference: when a reference raises, or returns the wrong number of outputs or something that is not an array.

    """
    copies = {name: _copy(value) for name, value in inputs.items()}
    baseline = _called(spec, "torch_reference", copies)
    high = _called(spec, "torch_reference", {name: _widened(value) for name, value in inputs.items()})
    _check_shapes(spec, "torch_reference in float64", high, baseline)
    widened = any(isinstance(value, torch.Tensor) and value.dtype.is_floating_point for value in inputs.values())
    for name, one, low in zip(spec.outputs, high, baseline, strict=True):
        if widened and low.dtype.is_floating_point and one.dtype != torch.float64:
            raise InvalidReference(
                f"{spec.name}: torch_reference given float64 inputs returned {one.dtype} for {name!r}, expected torch.float64: compute "
                "in the dtype of the inputs, at least float32"
            )
    if not spec.finite(case):
        return Golden(baseline, high, high, _scales(spec, inputs, baseline), None)
    golden = tuple(value.to(one.device) for value, one in zip(_called(spec, "scipy_reference", _as_numpy(inputs)), baseline, strict=True))
    _check_shapes(spec, "scipy_reference", golden, baseline)
    scales = _scales(spec, inputs, baseline)
    rows = zip(spec.outputs, high, golden, scales, strict=True)
    return Golden(baseline, high, golden, scales, Comparison(tuple(compare_references(*row) for row in rows)))


def _called(spec: KernelSpec, role: str, inputs: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
    try:
        returned = getattr(spec, role)(**inputs)
    except Exception as error:
        raise InvalidReference(f"{spec.name}: {role} raised {type(error).__name__}: {error}; it is called as {role}(**inputs)") from error
    values = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(values) != len(spec.outputs):
        names = ", ".join(spec.outputs)
        raise InvalidReference(f"{spec.name}: {role} returned {len(values)} outputs, expected {len(spec.outputs)}: {names}")
    return tuple(_as_tensor(spec, role, name, value) for name, value in zip(spec.outputs, values, strict=True))


def _as_tensor(spec: KernelSpec, role: str, name: str, value: Any) -> torch.Tensor:
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidReference(f"{spec.name}: {role} returned a {type(value).__name__} for {name!r}, expected an array or tensor") from None
    if role == "scipy_reference" and tensor.dtype not in (torch.float64, torch.int64):
        raise InvalidReference(f"{spec.name}: {role} returned {tensor.dtype} for {name!r}, expected float64 or int64")
    return tensor


def _scales(spec: KernelSpec, inputs: Mapping[str, Any], baseline: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor | None, ...]:
    if spec.scales is None:
        return (None,) * len(baseline)
    with np.errstate(all="ignore"):  # inputs that are not finite have scales too, which then judge nothing
        called = _called(spec, "scales", _as_numpy(inputs))
    scales = tuple(value.to(one.device, torch.float64) for value, one in zip(called, baseline, strict=True))
    _check_shapes(spec, "scales", scales, baseline)
    return scales


def _check_shapes(spec: KernelSpec, role: str, values: tuple[torch.Tensor, ...], baseline: tuple[torch.Tensor, ...]) -> None:
    for name, value, one in zip(spec.outputs, values, baseline, strict=True):
        if value.shape != one.shape:
            raise InvalidReference(
                f"{spec.name}: {role} gives {name!r} the shape {tuple(value.shape)}, torch_reference {tuple(one.shape)}: make them equal"
            )


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _widened(value: Any) -> Any:
    """Return floating tensors and floating dtypes as float64, and everything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(torch.float64) if value.dtype.is_floating_point else value.clone()
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


def _as_numpy(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _array(value) for name, value in inputs.items()}


def _array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    wide = torch.float64 if value.dtype.is_floating_point else torch.int64 if value.dtype != torch.bool else torch.bool
    return value.to("cpu", wide, copy=True).numpy()


def _device(inputs: Mapping[str, Any]) -> torch.device:
    return next((value.device for value in inputs.values() if isinstance(value, torch.Tensor)), torch.device("cpu"))

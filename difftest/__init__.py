"""difftest: property-based differential testing for Triton kernels under every specialization policy.

The names below are loaded when they are first used: `import difftest` loads neither torch nor triton.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from difftest.case import Case
    from difftest.compile_log import recompile_tracker
    from difftest.contract import Contract
    from difftest.policy import SpecializationPolicy
    from difftest.spec import KernelSpec, register
    from difftest.tensors import Tensors
    from difftest.tolerance import error_ratio, exact, ulp

__version__ = "0.1.0"

_HOMES = {
    "Case": "case",
    "Contract": "contract",
    "KernelSpec": "spec",
    "SpecializationPolicy": "policy",
    "Tensors": "tensors",
    "error_ratio": "tolerance",
    "exact": "tolerance",
    "recompile_tracker": "compile_log",
    "register": "spec",
    "ulp": "tolerance",
}

__all__ = [
    "Case",
    "Contract",
    "KernelSpec",
    "SpecializationPolicy",
    "Tensors",
    "error_ratio",
    "exact",
    "recompile_tracker",
    "register",
    "ulp",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'difftest' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"difftest.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

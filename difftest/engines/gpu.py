"""The gpu engine: launches run as they are, on CUDA or ROCm."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from difftest.errors import CacheUnusable, EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


class GpuEngine:
    """Runs launches on the machine's GPU with the installed Triton."""

    name = "gpu"
    shows_fusion = True

    def __init__(self) -> None:
        import torch  # noqa: PLC0415 - loading difftest must not load torch

        if not torch.cuda.is_available():
            raise EngineUnavailable(
                f"the gpu engine needs a GPU, and torch {torch.__version__} sees none (torch.cuda.is_available() is False); "
                "use the simulator engine, which needs none"
            )
        self.device: torch.device = torch.device("cuda", torch.cuda.current_device())
        self.target = _target(self.device)

    @contextlib.contextmanager
    def activate(self) -> Iterator[None]:
        """Change nothing: launches go where Triton sends them.

        Raises:
            CacheUnusable: when Triton could not write what it compiles.

        """
        check_cache(Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache"))
        yield


def check_cache(directory: Path) -> None:
    """Check that Triton can write to its cache directory.

    Raises:
        CacheUnusable: with the reason, and what to set.

    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise CacheUnusable(
            f"Triton's cache directory {directory} cannot be written: {error.strerror}; set TRITON_CACHE_DIR to a writable directory"
        ) from None


def _target(device: torch.device) -> str:
    import torch  # noqa: PLC0415

    if torch.version.hip:
        architecture: str = torch.cuda.get_device_properties(device).gcnArchName
        return f"hip:{architecture.partition(':')[0]}"
    major, minor = torch.cuda.get_device_capability(device)
    return f"cuda:{major * 10 + minor}"

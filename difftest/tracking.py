"""The `recompile_tracker` fixture's tracker: on the engine of the run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from difftest.compile_log import CompileLog, recompile_tracker
from difftest.engines import default_engine_name, engine_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def tracker_on(engine: str, target: str) -> Callable[..., Any]:
    """Return `recompile_tracker` with an engine active in its blocks; without names, the GPU where there is one, else the simulator."""

    @contextlib.contextmanager
    def tracker(*kernels: Any, allow: int = 0, fresh: bool = False) -> Iterator[CompileLog]:
        chosen = engine_named(engine or default_engine_name(), target=target or None)
        with chosen.activate(), recompile_tracker(*kernels, allow=allow, fresh=fresh) as log:
            yield log

    return tracker

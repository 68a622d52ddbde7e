# LEAD (02:57): written by the lead while helpers were cut off. Keep this API and file; improve in place if better, write tests for it. Remove this line when done.
"""Compiles as Triton's hooks report them, and the tracker that limits them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from difftest import triton_adapter
from difftest.errors import Recompile
from difftest.specialization import CompileKey, compile_key, distance, explain, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class CompileEvent:
    """One in-process key miss: Triton compiled, or loaded from disk.

    Attributes:
        kernel: name of the Python function.
        jit: the `JITFunction`.
        key: its compile key.
        site: "file:line" of the launch.
        is_warmup: whether `kernel.warmup` asked for it.
        seconds: wall time of the compile.

    """

    kernel: str
    jit: Any
    key: CompileKey
    site: str
    is_warmup: bool
    seconds: float


@dataclass
class CompileLog:
    """The compiles of a block, in order."""

    events: list[CompileEvent] = field(default_factory=list)

    @property
    def keys(self) -> frozenset[CompileKey]:
        """The distinct keys compiled."""
        return frozenset(event.key for event in self.events)


@contextlib.contextmanager
def recording_compiles(*kernels: Any) -> Iterator[CompileLog]:
    """Record every compile inside, of the given kernels or of all.

    Hooks that were installed before are called as before, and are back after; a warm launch costs nothing, for hooks run on a miss only.
    """
    wanted = {id(triton_adapter.jit_function(kernel)) for kernel in kernels}
    recorder = _Recorder(CompileLog(), lambda jit: not wanted or id(jit) in wanted)
    with _chained("jit_cache_hook", recorder.before), _chained("jit_post_compile_hook", recorder.after):
        yield recorder.log


@contextlib.contextmanager
def recompile_tracker(*kernels: Any, allow: int = 0) -> Iterator[CompileLog]:
    """Fail when a kernel is compiled for more than `allow` distinct keys inside the block.

    Works inside `@given` bodies and nests. Without kernels it watches all. A disk-cache hit counts: the in-process key was new.

    Raises:
        Recompile: at the end of the block, naming the kernel, each argument that moved with its class before and after, and the launch
            line; never in the place of an exception from inside the block.

    """
    if allow < 0:
        raise ValueError(f"allow={allow}: expected the number of compiles that may happen, 0 or more")
    known = {id(jit): _known_keys(jit) for jit in map(triton_adapter.jit_function, kernels)}
    with recording_compiles(*kernels) as log:
        yield log
    excess = [_excess(events, known.get(id(events[0].jit), ()), allow) for events in _by_kernel(log) if len(_distinct(events)) > allow]
    if excess:
        raise Recompile("\n".join(excess))


class _Recorder:
    """Turns hook calls into events: the launch is read before the compile, the time after it."""

    def __init__(self, log: CompileLog, wants: Callable[[Any], bool]) -> None:
        self.log = log
        self._wants = wants
        self._begun: list[tuple[Any, float]] = []

    def before(self, info: Any, _is_warmup: bool) -> None:  # noqa: FBT001 - a hook's argument
        self._begun.append((info.jit_function, time.perf_counter()))

    def after(self, info: Any, is_warmup: bool) -> None:  # noqa: FBT001
        jit = info.jit_function
        begun = next((start for one, start in reversed(self._begun) if one is jit), time.perf_counter())
        self._begun = [(one, start) for one, start in self._begun if one is not jit]
        launch = triton_adapter.launch_being_compiled()
        if launch is None or not self._wants(jit):
            return
        key = compile_key(jit, launch.args, launch.kwargs)
        self.log.events.append(CompileEvent(key.kernel, jit, key, launch.site, is_warmup, time.perf_counter() - begun))


@contextlib.contextmanager
def _chained(slot: str, record: Callable[[Any, bool], None]) -> Iterator[None]:
    """Put a recording hook into a slot in front of what is there, and put that back after.

    A hook that somebody installed on top inside the block and left there stays: it may call ours, which then only passes on.
    """
    outer = triton_adapter.get_hook(slot)
    active = True

    def hook(**kwargs: Any) -> Any:
        if active:
            record(kwargs["fn"], bool(kwargs.get("is_manual_warmup")))
        return outer(**kwargs) if outer is not None else None

    triton_adapter.set_hook(slot, hook)
    try:
        yield
    finally:
        active = False
        if triton_adapter.get_hook(slot) is hook:
            triton_adapter.set_hook(slot, outer)


def _known_keys(jit: Any) -> tuple[CompileKey, ...]:
    """Return the keys that are compiled already, without values and options: what a first compile in the block is explained against."""
    target = triton_adapter.active_target()
    if target is None:
        return ()
    unknown = dict.fromkeys(one.name for one in triton_adapter.parameters(jit))
    bindings = (triton_adapter.Bound(unknown, made, {}, key, target) for made, _options, key in triton_adapter.cached_bindings(jit))
    return tuple(_without_values(key_of(jit, bound)) for bound in bindings)


def _without_values(key: CompileKey) -> CompileKey:
    return replace(key, arguments=tuple(replace(one, value="", unpolicied="") for one in key.arguments))


def _by_kernel(log: CompileLog) -> list[list[CompileEvent]]:
    groups: dict[int, list[CompileEvent]] = {}
    for event in log.events:
        groups.setdefault(id(event.jit), []).append(event)
    return list(groups.values())


def _distinct(events: list[CompileEvent]) -> list[CompileEvent]:
    first: dict[CompileKey, CompileEvent] = {}
    for event in events:
        first.setdefault(event.key, event)
    return list(first.values())


def _excess(events: list[CompileEvent], known: tuple[CompileKey, ...], allow: int) -> str:
    """Return the sentence on one kernel: how often, and each unallowed compile against the nearest key before it."""
    distinct = _distinct(events)
    lines = [f"{events[0].kernel} was compiled for {len(distinct)} keys, allowed {allow}:"]
    for index in range(allow, len(distinct)):
        event = distinct[index]
        earlier = [*known, *(one.key for one in distinct[:index])]
        if earlier:
            nearest = min(earlier, key=lambda key: distance(key, event.key))
            words = "; ".join(explain(nearest, event.key)) or "the same classes, in an empty cache"
        else:
            words = f"first compile, with {event.key.in_words()}"
        lines.append(f"  {words} at {event.site}")
    return "\n".join(lines)

"""Compiles as Triton's hooks report them, and the tracker that limits them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from difftest import triton_adapter
from difftest.errors import Recompile
from difftest.specialization import CompileKey, KeyArgument, cached_keys, compile_key, distance, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class CompileEvent:
    """One in-process key miss: Triton compiled, or loaded from disk.

    Attributes:
        kernel: name of the Python function.
        jit: the `JITFunction`.
        key: its compile key.
        site: "file:line" of the launch; "unknown" for a compile that no launch asked for (`kernel.preload`).
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
    with _recording(kernels) as recorder:
        yield recorder.log


@contextlib.contextmanager
def recompile_tracker(*kernels: Any, allow: int = 0, fresh: bool = False) -> Iterator[CompileLog]:
    """Fail when a kernel is compiled for more than `allow` distinct keys inside the block.

    Works inside `@given` bodies and nests. Without kernels it watches all. A disk-cache hit counts: the in-process key was new.

    Args:
        kernels: jit functions, also under `triton.autotune` or `triton.heuristics`.
        allow: how many distinct keys of each kernel may be compiled.
        fresh: start from an empty in-process cache and put the old one back, so that the block gives the same answer whatever ran before:
            what a `@given` body needs to shrink.

    Raises:
        Recompile: at the end of the block, naming the kernel, each argument that moved with its class before and after, and the launch
            line; never in the place of an exception from inside the block.

    """
    if allow < 0:
        raise ValueError(f"allow={allow}: expected the number of compiles that may happen, 0 or more")
    if fresh and not kernels:
        raise ValueError("fresh=True empties the cache of the kernels that are named; name them: recompile_tracker(kernel, fresh=True)")
    with contextlib.ExitStack() as stack:
        for jit in map(triton_adapter.jit_function, kernels if fresh else ()):
            stack.enter_context(triton_adapter.fresh_caches(jit))
        recorder = stack.enter_context(_recording(kernels))
        yield recorder.log
    groups = _by_kernel(recorder.log)
    excess = [_excess(events, recorder.known[id(events[0].jit)], allow) for events in groups if len(_distinct(events)) > allow]
    if excess:
        raise Recompile("\n".join(excess))


class _Recorder:
    """Turns the two hook calls of a compile into an event; `known` holds what each kernel had compiled before the block's first compile."""

    def __init__(self, watched: frozenset[int]) -> None:
        self.log = CompileLog()
        self.known: dict[int, tuple[CompileKey, ...]] = {}
        self._watched = watched
        self._begun: dict[tuple[int, str], tuple[CompileKey, str, float]] = {}

    def before(self, event: dict[str, Any]) -> None:
        """Read the launch, which is on the stack of this hook even where Triton compiles in another thread."""
        jit = event["fn"].jit_function
        if self._watched and id(jit) not in self._watched:
            return
        self.known.setdefault(id(jit), cached_keys(jit))
        launch = triton_adapter.launch_being_compiled()
        key = _key_without_launch(jit, event) if launch is None else compile_key(jit, launch.args, launch.kwargs)
        self._begun[id(jit), event["key"]] = (key, "unknown" if launch is None else launch.site, time.perf_counter())

    def after(self, event: dict[str, Any]) -> None:
        """Add the event of a compile that `before` saw begin."""
        jit = event["fn"].jit_function
        if (begun := self._begun.pop((id(jit), event["key"]), None)) is not None:
            key, site, start = begun
            seconds = time.perf_counter() - start
            self.log.events.append(CompileEvent(key.kernel, jit, key, site, bool(event["is_manual_warmup"]), seconds))


@contextlib.contextmanager
def _recording(kernels: tuple[Any, ...]) -> Iterator[_Recorder]:
    recorder = _Recorder(frozenset(id(triton_adapter.jit_function(kernel)) for kernel in kernels))
    with _chained("jit_cache_hook", recorder.before), _chained("jit_post_compile_hook", recorder.after):
        yield recorder


def _key_without_launch(jit: Any, event: dict[str, Any]) -> CompileKey:
    """Return a key that knows the types of the arguments only."""
    signature = event["compile"]["signature"]
    arguments = tuple(KeyArgument(name, str(kind), None, declared_constexpr=False) for name, kind in signature.items())
    target = triton_adapter.target_text(triton_adapter.active_target())
    return CompileKey(triton_adapter.kernel_name(jit), arguments, (("key", event["key"]),), target, event["key"])


@contextlib.contextmanager
def _chained(slot: str, record: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Put a recording hook into a slot in front of what is there, and put that back after.

    A hook that somebody installed on top inside the block and left there stays: it may call ours, which then only passes on.
    """
    outer = triton_adapter.get_hook(slot)
    active = True

    def hook(**kwargs: Any) -> Any:
        if active:
            record(kwargs)
        return outer(**kwargs) if outer is not None else None

    triton_adapter.set_hook(slot, hook)
    try:
        yield
    finally:
        active = False
        if triton_adapter.get_hook(slot) is hook:
            triton_adapter.set_hook(slot, outer)


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
    lines = [f"{events[0].kernel} was compiled for {len(distinct)} {'key' if len(distinct) == 1 else 'keys'}, allowed {allow}:"]
    for index in range(allow, len(distinct)):
        event = distinct[index]
        earlier = [*known, *(one.key for one in distinct[:index])]
        if earlier:
            nearest = min(reversed(earlier), key=lambda key: distance(key, event.key))  # the latest, whose values are known
            words = "; ".join(explain(nearest, event.key)) or "the same classes, in an empty cache"
        else:
            words = f"first compile, with {event.key.in_words()}"
        lines.append(f"  {words} at {event.site}")
    return "\n".join(lines)

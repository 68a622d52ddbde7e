"""The only file that touches Triton's private names; its tests pass on Triton 3.6 to 3.9.

Keys are never rebuilt by rule: `bind` runs Triton's own `JITFunction.run` on a cache that answers every key, so the key, the options that
`run` adds and their order are those of the installed version.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import weakref
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from difftest.errors import InvalidSpec, UnknownTarget, UnsupportedTriton, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

TESTED = ("3.6", "3.7", "3.8", "3.9")
DEFAULT_TARGET = "cuda:90"


def _private(owner: Any, *names: str) -> Any:
    """Return `owner.a.b` for the names `a`, `b`.

    Raises:
        UnsupportedTriton: naming what the installed Triton lacks.

    """
    found = owner
    for name in names:
        try:
            found = getattr(found, name)
        except AttributeError:
            path = ".".join((getattr(owner, "__name__", type(owner).__name__), *names))
            raise UnsupportedTriton(
                f"Triton {triton_version()} has no {path}, which difftest needs; tested with {_tested()}: install one of those"
            ) from None
    return found


def _tested() -> str:
    return f"Triton {TESTED[0]} to {TESTED[-1]}"


def triton_version() -> str:
    """Return the version of the installed Triton, such as "3.7.1"."""
    return str(triton.__version__)


def untested_triton() -> str | None:
    """Return a warning line when the installed Triton is older or newer than tested, else None."""
    version = triton_version()
    minor = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    oldest, newest = (tuple(map(int, tested.split("."))) for tested in (TESTED[0], TESTED[-1]))
    if oldest <= minor <= newest:
        return None
    word = "newer" if minor > newest else "older"
    return f"Triton {version} is {word} than tested ({_tested()}): compile keys may be wrong; run the tests in tests/adapter to find out"


try:
    import triton
    import triton.backends.compiler
    import triton.compiler.compiler
    import triton.runtime.autotuner
    import triton.runtime.jit
except ImportError as error:
    raise UnsupportedTriton(f"Triton cannot be imported ({error}); install it, tested with Triton {TESTED[0]} to {TESTED[-1]}") from error

_JIT: Any = _private(triton, "runtime", "jit", "JITFunction")
_AUTOTUNER: Any = _private(triton, "runtime", "autotuner", "Autotuner")
_DRIVER: Any = _private(triton, "runtime", "driver")
_KNOBS: Any = _private(triton, "knobs")
_IR: Any = _private(triton, "_C", "libtriton", "ir")
_TARGET: Any = _private(triton, "backends", "compiler", "GPUTarget")
_MAKE_BINDER: Any = _private(triton, "runtime", "jit", "create_function_from_signature")
_SPECIALIZE: Any = _private(triton, "runtime", "jit", "native_specialize_impl")
_BACKENDS: Any = _private(triton, "backends", "backends")
_MAKE_BACKEND: Any = cache(_private(triton, "compiler", "compiler", "make_backend"))
_RUN: Any = _private(_JIT, "run")
_DO_COMPILE: Any = _private(_JIT, "_do_compile")
_DO_BENCH: Any = _private(_AUTOTUNER, "do_bench")
_HOOKS = {
    "jit_cache_hook": _private(_KNOBS, "runtime"),
    "jit_post_compile_hook": _private(_KNOBS, "runtime"),
    "listener": _private(_KNOBS, "compilation"),
}
_FOREIGN = (str(Path(triton.__file__).parent) + os.sep, str(Path(__file__).parent) + os.sep)


# The architectures that NVIDIA and AMD have named. Triton itself takes any number up to the assembler, which TTIR never reaches.
_CAPABILITIES = frozenset(("70", "72", "75", "80", "86", "87", "88", "89", "90", "100", "101", "103", "110", "120", "121"))
_GFX = r"gfx9(00|02|04|06|08|09|0a|0c|40|41|42|50)|gfx10[1-3][0-6]|gfx11[0-7][0-3]|gfx12[05][01]"

# Targets and drivers -------------------------------------------------------------------------------------------------------------------


@cache
def parse_target(text: str) -> Any:
    """Return Triton's `GPUTarget` of a text such as "cuda:90" or "hip:gfx942".

    Raises:
        UnknownTarget: when the text has another form, or the installed Triton has no such backend.

    """
    backend, _, arch = text.partition(":")
    if (backend == "cuda" and arch in _CAPABILITIES) or (backend == "hip" and re.fullmatch(_GFX, arch)):
        target = _TARGET("cuda", int(arch), 32) if backend == "cuda" else _TARGET("hip", arch, 64 if arch.startswith("gfx9") else 32)
        try:
            _MAKE_BACKEND(target)
        except RuntimeError as reason:
            raise UnknownTarget(f"Triton {triton_version()} cannot compile for {text!r}: {reason}; it has {sorted(_BACKENDS)}") from None
        return target
    close = suggestion(text, ("cuda:80", "cuda:90", "cuda:100", "hip:gfx90a", "hip:gfx942", "hip:gfx950"))
    raise UnknownTarget(f"{text!r} is not a target: write 'cuda:<compute capability>' or 'hip:<gfx arch>' of a GPU that exists{close}")


def target_text(target: Any) -> str:
    """Return the text that `parse_target` takes, such as "cuda:90"."""
    return f"{target.backend}:{target.arch}"


def active_target() -> Any | None:
    """Return the target of the driver that is active, or None where there is no driver (a machine without a GPU)."""
    try:
        return _DRIVER.active.get_current_target()
    except RuntimeError:  # "0 active drivers": no GPU
        return None


class OfflineDriver:
    """A driver for a target that the machine does not have: it answers questions and cannot launch."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self._device = f"offline:{target_text(target)}"

    def get_current_target(self) -> Any:
        """Return the target."""
        return self.target

    def get_current_device(self) -> str:
        """Return a name that no real driver gives, so that no cache is shared with a GPU nor between two interceptors of compiles."""
        return f"{self._device}#{_interceptors[-1].serial}" if _interceptors else self._device

    def get_current_stream(self, _device: Any) -> int:
        """Return 0."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return torch's CPU device."""
        import torch  # noqa: PLC0415 - compile-only users need no torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return `torch.cpu`, which has streams and `synchronize` that do nothing."""
        import torch  # noqa: PLC0415

        return torch.cpu

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return a benchmarker that runs the kernel once and says 1 ms, so that the first valid config wins."""
        return _run_once


def _run_once(kernel_call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **_options: Any) -> list[float]:
    kernel_call()
    return [1.0] * len(quantiles or (0.5,))


@contextlib.contextmanager
def offline_driver(target: Any) -> Iterator[OfflineDriver]:
    """Make a target ("cuda:90" or a `GPUTarget`) the active one, on any machine, and restore the driver after.

    Inside, `kernel.warmup` compiles for the target, and `triton.autotune` takes the first config that runs. A launch needs
    `intercept_compiles` as well.
    """
    offline = OfflineDriver(parse_target(target) if isinstance(target, str) else target)
    before, bench = _DRIVER._active, _AUTOTUNER.__dict__["do_bench"]  # noqa: SLF001 - reading `active` would create a driver
    _DRIVER.set_active(offline)
    # A property wins over what a GPU run cached on the autotuner, and caches nothing itself: a GPU run after this one measures again.
    _AUTOTUNER.do_bench = property(lambda _self: _run_once)
    try:
        yield offline
    finally:
        _AUTOTUNER.do_bench = bench
        _DRIVER.set_active(before)


# Kernels and their parameters ----------------------------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """One parameter of a jit function, with the flags that are in force now."""

    name: str
    is_constexpr: bool
    do_not_specialize: bool
    do_not_specialize_on_alignment: bool
    annotation: str
    default: Any


def jit_function(kernel: Any) -> Any:
    """Return the `JITFunction` under `triton.autotune` and `triton.heuristics`.

    Raises:
        InvalidSpec: for something that holds none.

    """
    inner = kernel
    while not isinstance(inner, _JIT):
        if type(inner).__name__ == "InterpretedFunction":
            raise InvalidSpec(f"{kernel!r} is interpreted, so nothing compiles: unset TRITON_INTERPRET before triton is imported")
        if not hasattr(inner, "fn"):
            raise InvalidSpec(f"{kernel!r} is not a triton.jit function, nor an autotuner or heuristics around one")
        inner = inner.fn
    return inner


def kernel_name(jit: Any) -> str:
    """Return the name of the Python function."""
    return str(jit.fn.__name__)


def parameters(jit: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a jit function, with the specialization flags now in force."""
    return tuple(
        Parameter(p.name, p.is_constexpr, p.do_not_specialize, p.do_not_specialize_on_alignment, p.annotation, p.default)
        for p in jit.params
    )


def listed(jit: Any) -> tuple[tuple[str | int, ...], tuple[str | int, ...]]:
    """Return the raw entries of the decorator's `do_not_specialize` and `do_not_specialize_on_alignment`: names or positions."""
    return tuple(jit.do_not_specialize), tuple(jit.do_not_specialize_on_alignment)


# Binding: the key of a launch without a launch -----------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """What Triton makes of the arguments of one launch."""

    arguments: dict[str, Any]
    specialization: tuple[tuple[Any, Any], ...]
    options: dict[str, Any]
    key: str
    target: Any


class _AnyKernel(dict[str, Any]):
    """A kernel cache that has every key, and remembers which one was asked for."""

    key = ""

    def get(self, key: str, _default: Any = None) -> Any:
        self.key = key
        return self


class _ForgetfulKeys(dict[Any, str]):
    """A cache of key texts that keeps none.

    Triton's own takes constexprs 1, 1.0 and True for one key, whichever came first: a key asked here must not depend on that.
    """

    def __setitem__(self, _made: Any, _key: str) -> None:
        pass


class _KeyProbe:
    """Stands in for a `JITFunction` in Triton's own `run(..., warmup=True)`, up to the moment where it has the key."""

    pre_run_hooks: tuple[Any, ...] = ()
    used_global_vals: Mapping[Any, Any] = {}

    def __init__(self, jit: Any, target: Any) -> None:
        self.debug = jit.debug
        self.kernels = _AnyKernel()
        self.bound: tuple[Any, Any, Any] = ({}, [], {})
        backend = _MAKE_BACKEND(target)
        binder = _MAKE_BINDER(jit.signature, jit.params, backend)

        def recording(*args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
            self.bound = binder(*args, **kwargs)
            return self.bound

        caches: tuple[Any, ...] = (self.kernels, _ForgetfulKeys(), target, backend, recording)
        self.device_caches: defaultdict[Any, Any] = defaultdict(lambda: caches)


_probes: dict[int, dict[Any, _KeyProbe]] = {}


def _probe(jit: Any, target: Any) -> _KeyProbe:
    """Return the probe of a jit function as its flags are now; its jit function's end ends it."""
    by_flags = _probes.get(id(jit))
    if by_flags is None:  # by id: the hash of a JITFunction hashes its source
        by_flags = _probes[id(jit)] = {}
        weakref.finalize(jit, _probes.pop, id(jit), None)
    flags = (target_text(target), *[(p.do_not_specialize, p.do_not_specialize_on_alignment) for p in jit.params])
    if flags not in by_flags:
        by_flags[flags] = _KeyProbe(jit, target)
    return by_flags[flags]


def bind(jit: Any, args: Sequence[Any], kwargs: Mapping[str, Any], target: Any | None = None) -> Bound:
    """Return the bound arguments, specialization, options and compile key that a launch would have, in microseconds and with no compile.

    Args:
        jit: the `JITFunction`, with its flags as they are now (a policy may be applied).
        args: positional launch arguments.
        kwargs: keyword launch arguments and options such as `num_warps`.
        target: text or `GPUTarget`; None is the active driver's, or cuda:90 without a driver.

    """
    active = active_target()
    wanted = parse_target(target) if isinstance(target, str) else target or active or parse_target(DEFAULT_TARGET)
    if active is None:
        with offline_driver(wanted):  # `run` asks the driver for a device
            return bind(jit, args, kwargs, wanted)
    probe = _probe(jit, wanted)
    _RUN(probe, *args, grid=None, warmup=True, **kwargs)
    arguments, specialization, options = probe.bound
    return Bound(arguments, tuple(specialization[: len(jit.params)]), options, probe.kernels.key, wanted)


def specialize(value: Any, target: Any | None = None, *, is_const: bool = False) -> tuple[Any, Any]:
    """Return what Triton's binder makes of one argument with nothing excluded: such as `("i32", "D")` or `("constexpr", 1)`."""
    wanted = parse_target(target) if isinstance(target, str) else target or active_target() or parse_target(DEFAULT_TARGET)
    kind, specialization = _SPECIALIZE(_MAKE_BACKEND(wanted), value, is_const, True, True)  # noqa: FBT003 - a C function
    return kind, specialization


def cached_bindings(jit: Any) -> tuple[tuple[tuple[Any, ...], str, str], ...]:
    """Return `(specialization, options text, key)` of each key that the jit function's in-process cache holds for the active device."""
    device = _DRIVER.active.get_current_device()
    if device not in jit.device_caches:
        return ()
    kernels, keys, *_ = jit.device_caches[device]
    return tuple((tuple(spec), options, key) for (spec, options), key in keys.items() if key in kernels)


# Flags and caches ----------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def fresh_caches(jit: Any) -> Iterator[None]:
    """Give a jit function an empty in-process cache, and put the old one back."""
    before, jit.device_caches = jit.device_caches, defaultdict(jit.create_binder)
    try:
        yield
    finally:
        jit.device_caches = before


@contextlib.contextmanager
def set_specialization(jit: Any, do_not_specialize: frozenset[str], on_alignment: frozenset[str]) -> Iterator[None]:
    """Make these the parameters that Triton does not specialize (on alignment), in place with an empty cache, and undo both."""
    before = [(p, p.do_not_specialize, p.do_not_specialize_on_alignment) for p in jit.params]
    with fresh_caches(jit):
        try:
            for p in jit.params:
                p.do_not_specialize, p.do_not_specialize_on_alignment = p.name in do_not_specialize, p.name in on_alignment
            yield
        finally:
            for p, value, alignment in before:
                p.do_not_specialize, p.do_not_specialize_on_alignment = value, alignment


# Launches and compiles -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """One `kernel[grid](*args, **kwargs)`; `site` is the "file:line" of the launching code outside Triton and difftest."""

    jit: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    grid: Any
    site: str


def _site(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_filename.startswith(_FOREIGN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown"


@contextlib.contextmanager
def intercept_launches(around: Callable[[Launch, Callable[..., Any]], Any]) -> Iterator[None]:
    """Call `around(launch, proceed)` for each launch inside; `proceed(args, kwargs)` launches on. Warm-ups pass untouched.

    Interceptors nest: the innermost block sees the launch first.
    """
    outer = _JIT.run

    def run(jit: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return outer(jit, *args, grid=grid, warmup=warmup, **kwargs)

        def proceed(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            return outer(jit, *args, grid=grid, warmup=False, **kwargs)

        return around(Launch(jit, args, kwargs, grid, _site(sys._getframe(1))), proceed)  # noqa: SLF001

    _JIT.run = run
    try:
        yield
    finally:
        _JIT.run = outer


def launch_being_compiled() -> Launch | None:
    """Return the launch or warm-up whose compile is running on this thread (asked from a hook), or None.

    It reads the frame of `JITFunction.run`: that costs a warm launch nothing.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None and frame.f_code is not _RUN.__code__:
        frame = frame.f_back
    if frame is None:
        return None
    seen = frame.f_locals
    return Launch(seen["self"], seen["args"], dict(seen["kwargs"]), seen["grid"], _site(frame.f_back))


class _Interceptor(NamedTuple):
    compile_kernel: Callable[[Any, Any, Any, dict[str, Any]], Any]
    serial: int


_interceptors: list[_Interceptor] = []
_serials: dict[Any, int] = {}
_next_serial = itertools.count(1)


@contextlib.contextmanager
def intercept_compiles(compile_kernel: Callable[[Any, Any, Any, dict[str, Any]], Any]) -> Iterator[None]:
    """Make `compile_kernel(src, jit, target, options)` give the kernel object of each compile under an `offline_driver`.

    Triton's `run` stays as it is: keys, hooks and the cache are its own. It calls `kernel.launch_metadata(grid, stream, *arguments)`, then
    `kernel.run(gx, gy, gz, stream, kernel.function, kernel.packed_metadata, launch_metadata, enter_hook, exit_hook, *arguments)`.
    Kernels made by the same `compile_kernel` are found again by a later block; those of another one are not. With a real driver active,
    nothing is intercepted.
    """
    serial = _serials.setdefault(compile_kernel, next(_next_serial))
    _interceptors.append(_Interceptor(compile_kernel, serial))
    _JIT._do_compile = _do_compile  # noqa: SLF001
    try:
        yield
    finally:
        _interceptors.pop()
        if not _interceptors:
            _JIT._do_compile = _DO_COMPILE  # noqa: SLF001


def _do_compile(jit: Any, *args: Any, **kwargs: Any) -> Any:
    """Run Triton's `_do_compile` with the innermost interceptor in the place of Triton's compiler."""
    if not isinstance(_DRIVER.active, OfflineDriver):
        return _DO_COMPILE(jit, *args, **kwargs)
    make, real = _interceptors[-1].compile_kernel, jit.compile
    jit.compile = lambda src, target, options, **_env: make(src, jit, target, options)
    try:
        return _DO_COMPILE(jit, *args, **kwargs)
    finally:
        jit.compile = real


def ttir(src: Any, target: Any, options: Mapping[str, Any]) -> str:
    """Return the TTIR of a kernel source for a target in MLIR's generic form with locations, in about 50 ms.

    Raises:
        triton.CompilationError: as Triton's compiler does.

    """
    backend = _MAKE_BACKEND(target)
    parsed = backend.parse_options(dict(options))
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, src.language)
    context = _IR.context()
    _IR.load_dialects(context)
    backend.load_dialects(context)
    module = src.make_ir(target, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
    return _generic(str(stages["ttir"](module, {})), context)


def _generic(text: str, context: Any) -> str:
    """Return MLIR text in generic form: an attribute without a dialect fails verification, and MLIR prints such modules generically."""
    descriptor = os.memfd_create("ttir")
    try:
        with os.fdopen(os.dup(descriptor), "w") as file:
            file.write(text)
        module = _IR.parse_mlir_module(f"/proc/self/fd/{descriptor}", context)
    finally:
        os.close(descriptor)
    module.set_attr("generic", _IR.builder(context).get_bool_attr(True))  # noqa: FBT003 - a C function
    generic = str(module)
    if '"tt.func"(' not in generic:
        raise UnsupportedTriton(f"Triton {triton_version()} did not print TTIR in generic form; tested with {_tested()}")
    return generic


# Hooks ---------------------------------------------------------------------------------------------------------------------------------


def get_hook(name: str) -> Any:
    """Return what is in the slot `jit_cache_hook`, `jit_post_compile_hook` or `listener`."""
    return getattr(_HOOKS[name], name)


def set_hook(name: str, hook: Any) -> None:
    """Put a hook into the slot `jit_cache_hook`, `jit_post_compile_hook` or `listener`."""
    setattr(_HOOKS[name], name, hook)

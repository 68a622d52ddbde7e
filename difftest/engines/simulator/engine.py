"""The simulator as an engine: Triton's own launch path, with our kernel object in the place of the compiled one."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from difftest import triton_adapter
from difftest.engines.simulator.program import CHUNK_ELEMENTS, Program
from difftest.engines.simulator.run import MAX_LOOP_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

# By the text of the IR: a policy that gives the same IR shares its program.
_programs: dict[str, Program] = {}
# By what the IR is made of: policies compile the same keys in fresh caches again and again.
_texts: dict[tuple[str, ...], str] = {}


class SimulatorEngine:
    """Runs launches on the CPU from the Triton IR of their own compile key, and checks every access."""

    name = "simulator"
    shows_fusion = False

    def __init__(self, target: str = triton_adapter.DEFAULT_TARGET, *, chunk_elements: int = CHUNK_ELEMENTS) -> None:
        triton_adapter.parse_target(target)
        self.target = target
        self.chunk_elements = chunk_elements
        self.max_loop_rounds = MAX_LOOP_ROUNDS

    @property
    def device(self) -> torch.device:
        """Return torch's CPU device."""
        import torch  # noqa: PLC0415 - loading difftest must not load torch

        return torch.device("cpu")

    @contextlib.contextmanager
    def activate(self) -> Iterator[None]:
        """Make every launch inside run here."""
        with triton_adapter.offline_driver(self.target), triton_adapter.intercept_compiles(self._compile):
            yield

    def _compile(self, source: Any, jit: Any, target: Any, options: Mapping[str, Any]) -> SimulatedKernel:
        return SimulatedKernel(self, program_of(_text(source, jit, target, options)), _names(source, jit))


def _text(source: Any, jit: Any, target: Any, options: Mapping[str, Any]) -> str:
    made_of = (source.signature, source.constants, source.attrs, options)
    parts = (repr(sorted(part.items(), key=repr)) for part in made_of)
    key = (jit.fn.__code__.co_filename, jit.cache_key, triton_adapter.target_text(target), *parts)
    if key not in _texts:
        _texts[key] = triton_adapter.ttir(source, target, options)
    return _texts[key]


def program_of(text: str) -> Program:
    """Return the program that IR in generic form spells; equal texts share one."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest not in _programs:
        _programs[digest] = Program(text)
    return _programs[digest]


def _names(source: Any, jit: Any) -> tuple[tuple[str, Any], ...]:
    """Return each parameter's name and its entry of the signature, in the order of the launch's arguments."""
    return tuple((parameter.name, source.signature[parameter.name]) for parameter in triton_adapter.parameters(jit))


@dataclass(frozen=True)
class SimulatedKernel:
    """What Triton's launch path holds as the compiled kernel."""

    engine: SimulatorEngine
    program: Program
    signature: tuple[tuple[str, Any], ...]
    function: None = None
    packed_metadata: None = None

    def result(self) -> SimulatedKernel:
        """Return the kernel itself: it is never pending."""
        return self

    def launch_metadata(self, _grid: Any, _stream: Any, *_arguments: Any) -> None:
        """Return None: no hook of a launch reads metadata here."""

    def run(self, *call: Any) -> None:
        """Run a launch: grid, stream, function, two metadata and two hooks, then the arguments as Python gave them."""
        grid, arguments = call[:3], call[9:]
        flat = [
            item
            for (name, kind), value in zip(self.signature, arguments, strict=True)
            for item in flattened(name, kind, value)
        ]
        self.program.launch(
            (int(grid[0]), int(grid[1]), int(grid[2])),
            flat,
            chunk_elements=self.engine.chunk_elements,
            max_loop_rounds=self.engine.max_loop_rounds,
        )


def flattened(name: str, kind: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of the IR function that come from one Python argument: none of a constexpr, each member of a tuple."""
    if isinstance(kind, (tuple, list)):
        for index, (inner, member) in enumerate(zip(kind, value, strict=True)):
            yield from flattened(f"{name}[{index}]", inner, member)
    elif kind != "constexpr":
        yield name, value

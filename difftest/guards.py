"""Guard bands: each tensor of a launch between margins that nobody may write to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from difftest.errors import GuardBandWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch

# A margin wider than the largest tile of ordinary kernels: a store past the end lands in it and not in another allocation.
GUARD_BYTES = 64 * 1024
_ALIGNMENT = 256
_GUARD_BYTE = 0xA7
_GUARD_WORD = int.from_bytes(bytes([_GUARD_BYTE]) * 8, signed=True)


@dataclass(frozen=True)
class _Room:
    """One storage of a launch, its copy between guard bands, and the views of it that were passed."""

    original: torch.Tensor  # uint8, (nbytes,)
    buffer: torch.Tensor  # uint8, (GUARD_BYTES + nbytes + GUARD_BYTES + slack,)
    start: int  # index in `buffer` of the storage's first byte
    views: list[tuple[str, torch.Tensor]]  # argument name and the tensor inside the copy

    @property
    def inside(self) -> torch.Tensor:
        return self.buffer[self.start : self.start + self.original.numel()]


class GuardedArguments:
    """The arguments of one launch moved between guard bands.

    Every distinct storage is copied once, so aliasing and views are preserved, and each pointer keeps its address modulo 256 bytes, so
    the launch keeps its compile key. `put_back` copies the contents to the caller's tensors.
    """

    def __init__(self) -> None:
        self._rooms: dict[int, _Room] = {}
        self._moved: dict[tuple[Any, ...], torch.Tensor] = {}

    def moved(self, name: str, value: Any) -> Any:
        """Return `value` with each tensor in it (also inside tuples and lists) replaced by its guarded copy."""
        import torch  # noqa: PLC0415 - loading difftest must not load torch

        if isinstance(value, torch.Tensor):
            return self._tensor(name, value) if _is_plain(value) else value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.moved(f"{name}.{field}", item) for field, item in zip(value._fields, value, strict=True)))
        if isinstance(value, (tuple, list)):
            return type(value)(self.moved(f"{name}[{index}]", item) for index, item in enumerate(value))
        return value

    def put_back(self) -> None:
        """Copy what the launch left in the guarded copies to the caller's tensors."""
        for room in self._rooms.values():
            room.original.copy_(room.inside)

    def breaches(self, name_of_site: str) -> Iterator[str]:
        """Yield a sentence for each storage whose margins, or whose bytes between the passed views, were written."""
        for room in self._rooms.values():
            yield from _margin_breaches(room, name_of_site)
            yield from _gap_breaches(room, name_of_site)

    def _tensor(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride())
        if key not in self._moved:
            room = self._rooms.get(storage.data_ptr()) or self._room(tensor)
            self._moved[key] = _view_in(room, tensor)
            room.views.append((name, self._moved[key]))
        return self._moved[key]

    def _room(self, tensor: torch.Tensor) -> _Room:
        import torch  # noqa: PLC0415

        storage = tensor.untyped_storage()
        original = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        original.set_(storage, 0, (storage.nbytes(),), (1,))
        buffer = torch.empty(2 * GUARD_BYTES + original.numel() + _ALIGNMENT, dtype=torch.uint8, device=tensor.device)
        start = GUARD_BYTES + (storage.data_ptr() - buffer.data_ptr() - GUARD_BYTES) % _ALIGNMENT
        room = _Room(original, buffer, start, [])
        buffer[:start].fill_(_GUARD_BYTE)
        buffer[start + original.numel() :].fill_(_GUARD_BYTE)
        room.inside.copy_(original)
        self._rooms[storage.data_ptr()] = room
        return room


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is strided memory of its own that can be moved."""
    import torch  # noqa: PLC0415

    return tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > 0 and not tensor.is_meta


def _view_in(room: _Room, tensor: torch.Tensor) -> torch.Tensor:
    import torch  # noqa: PLC0415

    # The copy is seen through a storage of its own view: offsets in elements are relative to the first byte of the copied storage, which
    # need not be a multiple of the element size from the buffer's start, so the view is made on a slice of bytes first.
    itemsize = tensor.dtype.itemsize
    lead = tensor.storage_offset() * itemsize
    extent = _extent(tensor)
    span = room.buffer[room.start + lead : room.start + lead + extent * itemsize]
    return torch.as_strided(span.view(tensor.dtype), tensor.shape, tensor.stride())


def _extent(tensor: torch.Tensor) -> int:
    """Return the number of elements from a tensor's first to its last, in memory."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _margin_breaches(room: _Room, site: str) -> Iterator[str]:
    end = room.start + room.original.numel()
    for side, margin in (("before", room.buffer[: room.start]), ("after", room.buffer[end:])):
        if _untouched(margin):
            continue
        written = (margin != _GUARD_BYTE).nonzero()
        furthest = room.start - int(written[0]) if side == "before" else int(written[-1]) + 1
        names = ", ".join(dict.fromkeys(name for name, _ in room.views))
        yield (
            f"{written.numel()} bytes {side} `{names}` were written, up to {furthest} bytes away; no launch argument covers them; "
            f"launch at {site}"
        )


def _untouched(margin: torch.Tensor) -> bool:
    """Whether every byte still holds the guard: compared eight at a time where the address allows it, and one at a time elsewhere."""
    import torch  # noqa: PLC0415

    head = -margin.data_ptr() % 8
    body = (margin.numel() - head) // 8 * 8
    words = margin[head : head + body].view(torch.int64)
    edges = torch.cat((margin[:head], margin[head + body :]))
    return not bool((words != _GUARD_WORD).any()) and not bool((edges != _GUARD_BYTE).any())


def _gap_breaches(room: _Room, site: str) -> Iterator[str]:
    """Yield when bytes of the storage that belong to no passed view changed."""
    import torch  # noqa: PLC0415

    if any(view.is_contiguous() and view.numel() * view.dtype.itemsize == room.original.numel() for _, view in room.views):
        return
    changed = room.inside != room.original
    for _, view in room.views:
        if view.numel():  # an empty view has no address to count from
            _bytes_of(changed, room, view).fill_(False)  # noqa: FBT003 - the value written
    count = int(torch.count_nonzero(changed))
    if count:
        names = ", ".join(dict.fromkeys(name for name, _ in room.views))
        first = int(changed.nonzero()[0])
        yield (
            f"{count} bytes between or beside the views `{names}` of one storage were written, the first at byte {first}; launch at {site}"
        )


def _bytes_of(mask: torch.Tensor, room: _Room, view: torch.Tensor) -> torch.Tensor:
    """Return the part of a byte mask of the storage that a view covers."""
    import torch  # noqa: PLC0415

    itemsize = view.dtype.itemsize
    offset = view.data_ptr() - room.inside.data_ptr()
    return torch.as_strided(mask, (*view.shape, itemsize), (*(stride * itemsize for stride in view.stride()), 1), offset)


def run_guarded(
    names: Mapping[int, str],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    site: str,
    proceed: Callable[[tuple[Any, ...], dict[str, Any]], Any],
) -> Any:
    """Run `proceed(args, kwargs)` on guarded copies of the arguments, put them back, and return its result.

    Args:
        names: parameter name of each position.
        args: positional arguments of the launch.
        kwargs: keyword arguments of the launch.
        site: `file:line` of the launch, for the message.
        proceed: starts the launch.

    Raises:
        GuardBandWrite: when a byte outside the passed tensors was written.

    """
    guarded = GuardedArguments()
    moved_args = tuple(guarded.moved(names.get(index, f"argument {index}"), value) for index, value in enumerate(args))
    moved_kwargs = {name: guarded.moved(name, value) for name, value in kwargs.items()}
    result = proceed(moved_args, moved_kwargs)
    breaches = list(guarded.breaches(site))  # before the copy back: the caller's tensors are what the gaps are compared with
    guarded.put_back()
    if breaches:
        raise GuardBandWrite("\n".join(breaches))
    return result

"""A launch function launches once, nothing for nothing to do, waits for nothing, and knows what memory is shared."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from difftest import triton_adapter
from kernels.bilinear_pos_embed import bilinear_pos_embed
from kernels.mrope import mrope, mrope_from_positions
from kernels.slot_mapping import slot_mapping
from tests.right_arguments import ARGUMENTS, mrope_arguments, positions_arguments, zeros

aten = torch.ops.aten
LAUNCHERS = pytest.mark.parametrize("launcher", ARGUMENTS, ids=lambda launcher: launcher.__name__)


@pytest.fixture
def launches():
    """The launches of the test, none of which runs."""
    seen = []
    with triton_adapter.intercept_launches(lambda launch, _proceed: seen.append(launch)):
        yield seen


def bytes_of(rows):
    size = rows.element_size()
    return {
        rows.data_ptr() + (row * rows.stride(0) + column) * size + byte
        for row, column, byte in itertools.product(range(rows.shape[0]), range(rows.shape[1]), range(size))
    }


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32), (torch.float16, torch.float32)], ids=str)
def test_q_and_k_are_refused_exactly_when_they_share_memory(rows, dtypes, launches):
    buffer = torch.zeros(200, dtype=torch.float32)
    q_buffer, k_buffer = (buffer.view(dtype) for dtype in dtypes)
    pitch = buffer.element_size() * 11
    q = q_buffer[120:].as_strided((rows, 4), (pitch // q_buffer.element_size(), 1))
    layout = {"mrope_section": (0, 1, 0), "head_size": 2, "rotary_dim": 2, "interleaved": False, "neox_style": True}
    angles = {"cos": zeros(3, rows, 1), "sin": zeros(3, rows, 1)}
    verdicts = set()
    for start in range(k_buffer.numel() - 40):
        k = k_buffer.as_strided((rows, 6), (pitch // k_buffer.element_size(), 1), storage_offset=start)
        shared = bool(bytes_of(q) & bytes_of(k))
        try:
            mrope(q, k, **angles, **layout)
            refused = False
        except ValueError as error:
            refused = "overlaps q" in str(error)
        assert refused == shared, start
        verdicts.add(refused)
    assert verdicts == {True, False}


def test_q_and_k_that_interleave_with_unequal_row_strides_are_refused(launches):
    buffer = torch.zeros(400)
    with pytest.raises(ValueError, match=r"k \(row stride 64\) overlaps q \(row stride 48\) in memory"):
        mrope(**mrope_arguments(q=buffer.as_strided((4, 32), (48, 1)), k=buffer.as_strided((4, 16), (64, 1), 32)))
    assert launches == []


EMPTY = [
    (bilinear_pos_embed, {"t": 0}),
    (bilinear_pos_embed, {"h": 0}),
    (bilinear_pos_embed, {"weight": zeros(9, 0)}),
    (mrope, {"q": zeros(0, 32), "k": zeros(0, 16), "cos": zeros(3, 0, 6), "sin": zeros(3, 0, 6)}),
    (mrope_from_positions, {"q": zeros(0, 32), "k": zeros(0, 16), "positions": zeros(3, 0, dtype=torch.int64), "validate": True}),
    (slot_mapping, {"num_reqs": 0, "positions": zeros(0, dtype=torch.int64), "slot_mapping": zeros(0, dtype=torch.int64)}),
]


@pytest.mark.parametrize(("launcher", "changes"), EMPTY, ids=lambda part: getattr(part, "__name__", None))
def test_nothing_to_do_launches_nothing(launcher, changes, launches):
    launcher(**ARGUMENTS[launcher](**changes))
    assert launches == []


ON_DEVICE = torch.ones(1)


POSITIONS = {
    "planes": torch.arange(12).view(3, 4) % 9,
    "planes last": (torch.arange(12).view(4, 3) % 9).T,
    "part of a buffer": (torch.arange(30).view(3, 10) % 9)[:, 3:7],
    "int32": torch.arange(12, dtype=torch.int32).view(3, 4) % 9,
    "text": torch.tensor([5, 0, 8, 2]),
}


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
def test_angles_are_gathered_from_positions_of_any_layout(positions, launches):
    cache = torch.rand(9, 12)
    mrope_from_positions(**positions_arguments(positions=positions, cos_sin_cache=cache))
    cos, sin = launches[0].args[2:4]
    expected = torch.stack([torch.stack([cache[position] for position in plane]) for plane in positions.expand(3, 4).tolist()])
    assert torch.equal(torch.cat([cos, sin], dim=-1), expected)


class HostWaited(Exception):
    """A launch function read what only the device knows."""


class NoHostWait(TorchDispatchMode):
    """Refuses every operation that is not known to be queued on a GPU without waiting for it."""

    QUEUED = frozenset({aten.empty.memory_format, aten.slice.Tensor, aten.view.default, aten.index_select.default})

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func not in self.QUEUED:
            raise HostWaited(str(func))
        return func(*args, **kwargs or {})


@pytest.fixture
def no_host_wait(monkeypatch):
    def waited(*_args, **_kwargs):
        raise HostWaited

    # On CPU tensors these do not reach the dispatcher.
    for name in ("tolist", "numpy", "cpu", "item"):
        monkeypatch.setattr(torch.Tensor, name, waited)
    with NoHostWait():
        yield


@LAUNCHERS
def test_a_launch_waits_for_nothing_on_the_host(launcher, launches, no_host_wait):
    with _disable_current_modes():
        arguments = ARGUMENTS[launcher]()
    launcher(**arguments)
    assert len(launches) == 1


@pytest.mark.parametrize("launcher", [mrope_from_positions, slot_mapping], ids=lambda launcher: launcher.__name__)
def test_validate_waits_for_the_device_and_so_is_not_the_default(launcher, launches, no_host_wait):
    with _disable_current_modes():
        arguments = ARGUMENTS[launcher]()
    with pytest.raises(HostWaited):
        launcher(**arguments, validate=True)
    assert launches == []


@pytest.mark.parametrize(
    "wait",
    [int, float, bool, lambda x: x.tolist(), lambda x: x.cpu(), lambda x: x.to("meta"), lambda x: x.nonzero(), lambda x: torch.equal(x, x)],
)
def test_the_watch_sees_a_wait(wait, no_host_wait):
    with pytest.raises(HostWaited):
        wait(ON_DEVICE)

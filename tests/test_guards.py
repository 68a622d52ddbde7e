"""Guard bands: what a launch writes outside its tensors is found, and what it writes inside is kept."""

from __future__ import annotations

import pytest
import torch

from difftest import guards
from difftest.errors import GuardBandWrite
from difftest.guards import run_guarded

NAMES = {0: "x", 1: "y"}


def guarded(body, *tensors):
    return run_guarded(NAMES, tensors, {}, "launcher.py:7", lambda args, _kwargs: body(*args))


def memory_around(tensor):
    """Return the bytes of the buffer that holds a guarded tensor, and the index of the tensor's first byte."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,)), tensor.data_ptr() - storage.data_ptr()


def test_what_a_launch_writes_inside_its_tensors_reaches_the_caller():
    x = torch.zeros(4)
    assert guarded(lambda moved: moved.add_(1) is None, x) is False
    assert x.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("offset", "side"), [(-4, "before"), (40, "after")])
def test_a_byte_written_beside_a_tensor_is_a_finding(offset, side):
    def body(moved):
        around, start = memory_around(moved)
        around[start + offset] = 1

    with pytest.raises(GuardBandWrite, match=rf"1 bytes {side} `x` were written, .*launch at launcher\.py:7"):
        guarded(body, torch.zeros(10))


def test_a_write_into_the_gap_between_rows_is_a_finding():
    buffer = torch.zeros(3, 8)
    view = buffer[:, :6]
    with pytest.raises(GuardBandWrite, match=r"2 bytes between or beside the views `x` of one storage were written, the first at byte 26"):
        guarded(lambda moved: torch.as_strided(moved, (1,), (1,), moved.storage_offset() + 6).fill_(1), view)


def test_a_write_into_a_neighbour_view_that_was_not_passed_is_a_finding():
    buffer = torch.zeros(12)
    with pytest.raises(GuardBandWrite, match="beside the views"):
        guarded(lambda moved: torch.as_strided(moved, (1,), (1,), moved.storage_offset() + 5).fill_(1), buffer[2:6])


def test_views_of_one_storage_stay_aliased():
    buffer = torch.arange(8.0)
    guarded(lambda x, y: x.copy_(y.flip(0)), buffer[:4], buffer[2:6])
    assert buffer.tolist() == [5, 4, 3, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("offset", range(5))
def test_the_address_modulo_16_and_the_strides_are_kept(offset):
    x = torch.zeros(100, dtype=torch.bfloat16)[offset : offset + 60].view(10, 6)[:, :5]

    def body(moved):
        assert moved.data_ptr() % 16 == x.data_ptr() % 16
        assert (moved.shape, moved.stride(), moved.dtype) == (x.shape, x.stride(), x.dtype)

    guarded(body, x)


def test_tensors_inside_tuples_and_keywords_are_guarded_too():
    x = torch.zeros(4)

    def body(args, kwargs):
        assert args[0][0].data_ptr() != x.data_ptr()
        assert args[0][0].data_ptr() == kwargs["again"].data_ptr()

    run_guarded({}, ((x, 3),), {"again": x}, "here", body)


def test_empty_tensors_and_plain_values_pass_through():
    assert guarded(lambda x, y: (x.numel(), y), torch.empty(0), 3) == (0, 3)


def test_a_guard_that_is_not_looked_at_finds_nothing(monkeypatch):
    """The check above can fail: with the margins unread, the same write passes."""
    monkeypatch.setattr(guards, "_margin_breaches", lambda _room, _site: ())

    def body(moved):
        around, start = memory_around(moved)
        around[start + 40] = 1

    guarded(body, torch.zeros(10))


def test_an_empty_view_of_a_larger_buffer_covers_no_bytes_of_it():
    buffer = torch.zeros(8)
    guarded(lambda _x, y: y.fill_(1), buffer[8:], buffer[:2])
    assert buffer.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]

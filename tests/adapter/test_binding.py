"""Keys asked of the binder are the keys of real compiles, and the classes are those of the table, on every Triton that is tested."""

import contextlib
import itertools

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from difftest import triton_adapter
from difftest.compile_log import recording_compiles
from difftest.specialization import compile_key

TARGETS = ("cuda:90", "hip:gfx942")


@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["m"])
def mixed_kernel(x_ptr, n, m, k, scale, flag, maybe_ptr, BLOCK: tl.constexpr, extra=7):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, offsets * scale + n + m + k + extra, mask=offsets < n)


@triton.jit
def annotated_kernel(x_ptr, wide: tl.int64, ratio: tl.float32, SIZE: tl.constexpr = 16):
    tl.store(x_ptr + tl.arange(0, SIZE), ratio + wide)


@triton.jit
def listed_by_position_kernel(x_ptr, n, m, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, B), n + m)


def observed_key(kernel, args, kwargs, target):
    """Return the key that Triton's hook shows for a compile."""
    with triton_adapter.offline_driver(target), recording_compiles(kernel), triton_adapter.fresh_caches(kernel):
        keys = []
        before = triton_adapter.get_hook("jit_post_compile_hook")
        triton_adapter.set_hook("jit_post_compile_hook", lambda **event: keys.append(event["key"]))
        try:
            kernel.warmup(*args, grid=(1,), **kwargs)
        finally:
            triton_adapter.set_hook("jit_post_compile_hook", before)
    assert len(keys) == 1
    return keys[0]


X = torch.zeros(64, dtype=torch.float32)
HALF = torch.zeros(64, dtype=torch.bfloat16)
LAUNCHES = {
    "plain": ((X, 17, 32, 1, 2.0, True, None), {"BLOCK": 16}),
    "wide, unaligned, options": ((HALF[1:], 2**31, 2**40, -16, 0.5, False, X), {"BLOCK": 32, "num_warps": 2, "enable_fp_fusion": False}),
    "options in another order": ((X, 1, 1, 1, 1.0, True, None, 16), {"num_stages": 2, "num_warps": 8, "extra": 9, "debug": True}),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("launch", LAUNCHES)
def test_the_predicted_key_is_the_key_of_a_real_compile(launch, target):
    args, kwargs = LAUNCHES[launch]
    assert compile_key(mixed_kernel, args, kwargs, target).text == observed_key(mixed_kernel, args, kwargs, target)


@pytest.mark.parametrize("target", TARGETS)
def test_annotations_are_in_the_predicted_key(target):
    args = (X, 2**5, 3)
    assert compile_key(annotated_kernel, args, {}, target).text == observed_key(annotated_kernel, args, {}, target)


def test_under_a_policy_the_predicted_key_is_the_key_of_a_real_compile():
    args, kwargs = LAUNCHES["plain"]
    decorated = compile_key(mixed_kernel, args, kwargs, "cuda:90").text
    with triton_adapter.set_specialization(mixed_kernel, frozenset({"k", "x_ptr"}), frozenset()):
        applied = compile_key(mixed_kernel, args, kwargs, "cuda:90").text
        assert applied == observed_key(mixed_kernel, args, kwargs, "cuda:90")
    assert applied != decorated
    assert compile_key(mixed_kernel, args, kwargs, "cuda:90").text == decorated


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 16, 17, 2**31])
def test_the_predicted_key_is_the_key_of_a_launch_on_the_gpu(n):
    x = torch.zeros(64, device="cuda")
    with triton_adapter.fresh_caches(listed_by_position_kernel), recording_compiles(listed_by_position_kernel) as log:
        listed_by_position_kernel[(1,)](x, n, 5, B=16)
        listed_by_position_kernel[(1,)](x, n, 5, B=16)
    predicted = compile_key(listed_by_position_kernel, (x, n, 5), {"B": 16})
    assert [event.key for event in log.events] == [predicted]
    assert predicted.target == triton_adapter.target_text(triton_adapter.active_target())


# value, default, in do_not_specialize, in do_not_specialize_on_alignment
TABLE = [
    *[(value, ("i32", "D"), ("i32", None), ("i32", "")) for value in (0, 16, -16)],
    (1, ("constexpr", 1), ("i32", None), ("constexpr", 1)),
    *[(value, ("i32", ""), ("i32", None), ("i32", "")) for value in (2, 15, 17, -1, 2**31 - 1)],
    (2**31, ("i64", "D"), ("i64", None), ("i64", "")),
    (2**31 + 1, ("i64", ""), ("i64", None), ("i64", "")),
    (2**63, ("u64", "D"), ("u64", None), ("u64", "")),
    *[(value, ("fp32", None), ("fp32", None), ("fp32", None)) for value in (0.0, 1.0, 16.0, float("inf"))],
    *[(value, ("u1", None), ("u1", None), ("u1", None)) for value in (True, False)],
    (None, ("constexpr", None), ("constexpr", None), ("constexpr", None)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("value", "default", "excluded", "unaligned"), TABLE)
def test_a_scalar_has_the_class_of_the_table(value, default, excluded, unaligned, target):
    def made():
        return triton_adapter.bind(listed_by_position_kernel, (X, value, 5), {"B": 16}, target).specialization[1]

    assert made() == default == triton_adapter.specialize(value, target)
    with triton_adapter.set_specialization(listed_by_position_kernel, frozenset({"n"}), frozenset()):
        assert made() == excluded
    with triton_adapter.set_specialization(listed_by_position_kernel, frozenset(), frozenset({"n"})):
        assert made() == unaligned


@pytest.mark.parametrize(("target", "storage"), [("cuda:90", ""), ("hip:gfx942", "S")])
def test_a_pointer_has_the_class_of_the_table(target, storage):
    for tensor, kind, aligned in ((X, "*fp32", "D"), (HALF[1:], "*bf16", ""), (HALF[8:], "*bf16", "D")):
        assert triton_adapter.specialize(tensor, target) == (kind, aligned + storage)
    with triton_adapter.set_specialization(listed_by_position_kernel, frozenset({"x_ptr"}), frozenset()):
        assert triton_adapter.bind(listed_by_position_kernel, (X, 2, 5), {"B": 16}, target).specialization[0] == ("*fp32", None)
    with triton_adapter.set_specialization(listed_by_position_kernel, frozenset(), frozenset({"x_ptr"})):
        assert triton_adapter.bind(listed_by_position_kernel, (X, 2, 5), {"B": 16}, target).specialization[0] == ("*fp32", storage)


@pytest.mark.parametrize("value", [np.int32(1), np.int64(16), np.float32(1), np.bool_(1)])
def test_numpy_scalars_are_refused_by_triton(value):
    with pytest.raises(TypeError):
        triton_adapter.specialize(value, "cuda:90")


def test_integers_of_more_than_64_bits_are_refused_by_triton():
    with pytest.raises(OverflowError):
        triton_adapter.specialize(2**64, "cuda:90")


def test_a_tuple_is_not_reached_by_do_not_specialize():
    with triton_adapter.set_specialization(listed_by_position_kernel, frozenset({"n"}), frozenset()):
        kind, made = triton_adapter.bind(listed_by_position_kernel, (X, (16, 1), 5), {"B": 16}, "cuda:90").specialization[1]
    assert (kind, made) == (("i32", "constexpr"), ("D", 1))


def test_entries_of_the_decorator_may_be_positions():
    @triton.jit(do_not_specialize=[1], do_not_specialize_on_alignment=["x_ptr"])
    def positional_kernel(x_ptr, n, B: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, B), n)

    flags = {one.name: (one.do_not_specialize, one.do_not_specialize_on_alignment) for one in triton_adapter.parameters(positional_kernel)}
    assert flags == {"x_ptr": (False, True), "n": (True, False), "B": (False, False)}
    assert triton_adapter.listed(positional_kernel) == ((1,), ("x_ptr",))


def test_a_binding_asks_for_what_is_missing():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'B'"):
        triton_adapter.bind(listed_by_position_kernel, (X, 2, 5), {}, "cuda:90")


def test_binding_compiles_nothing_and_leaves_the_driver():
    with triton_adapter.fresh_caches(listed_by_position_kernel), recording_compiles() as log:
        pairs = itertools.product((1, 16, 3), repeat=2)
        keys = {triton_adapter.bind(listed_by_position_kernel, (X, n, m), {"B": 16}, "cuda:90").key for n, m in pairs}
        assert not listed_by_position_kernel.device_caches
    assert (len(keys), log.events) == (9, [])
    if not torch.cuda.is_available():
        assert triton_adapter.active_target() is None


def test_flags_and_caches_are_back_also_after_an_exception():
    flags, caches = triton_adapter.parameters(mixed_kernel), mixed_kernel.device_caches
    with contextlib.suppress(KeyError), triton_adapter.set_specialization(mixed_kernel, frozenset({"k"}), frozenset()):
        assert triton_adapter.parameters(mixed_kernel) != flags
        assert mixed_kernel.device_caches is not caches
        raise KeyError
    assert triton_adapter.parameters(mixed_kernel) == flags
    assert mixed_kernel.device_caches is caches

import contextlib
import inspect
import json

import pytest
import torch
import triton
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import heuristic_kernel, launching, plain_kernel, sized_kernel, tuned_kernel

from difftest import triton_adapter
from difftest.compile_log import recompile_tracker, recording_compiles
from difftest.errors import InvalidSpec, Recompile
from difftest.specialization import compile_key

SLOTS = ("jit_cache_hook", "jit_post_compile_hook")


@pytest.fixture
def x():
    with launching() as tensor:
        yield tensor


@contextlib.contextmanager
def installed(slot, hook):
    """Put a hook in a slot as another tool would."""
    before = triton_adapter.get_hook(slot)
    triton_adapter.set_hook(slot, hook)
    try:
        yield
    finally:
        triton_adapter.set_hook(slot, before)


def launch(x, n, **options):
    plain_kernel[(1,)](x, n, 3, BLOCK=16, **options)
    return f"{__file__}:{inspect.currentframe().f_lineno - 1}"


def test_over_the_limit_the_argument_its_classes_and_the_line_are_named(x):
    with pytest.raises(Recompile) as raised, recompile_tracker(plain_kernel, allow=1):  # noqa: PT012 - raised at the end of the block
        launch(x, 17)
        site = launch(x, 32)
    assert str(raised.value) == f"plain_kernel was compiled for 2 keys, allowed 1:\n  `n`: 17 (other) -> 32 (multiple of 16) at {site}"


def test_every_compile_over_the_limit_has_a_line_against_the_nearest_key(x):
    with pytest.raises(Recompile) as raised, recompile_tracker(plain_kernel, allow=1):  # noqa: PT012 - raised at the end of the block
        launch(x, 17)
        launch(x, 32)
        site = launch(x, 32, num_warps=8)
    assert str(raised.value).splitlines() == [
        "plain_kernel was compiled for 3 keys, allowed 1:",
        f"  `n`: 17 (other) -> 32 (multiple of 16) at {site}",
        f"  option num_warps: absent -> 8 at {site}",
    ]


def test_at_the_limit_it_passes_and_the_log_has_events_and_keys(x):
    with recompile_tracker(plain_kernel, allow=2) as log:
        for n in (17, 32, 18, 48):
            site = launch(x, n)
    assert [(event.kernel, event.site, event.is_warmup) for event in log.events] == [("plain_kernel", site, False)] * 2
    assert log.keys == {compile_key(plain_kernel, (x, n, 3), {"BLOCK": 16}) for n in (17, 32)}
    assert all(event.seconds > 0 for event in log.events)


def test_a_compile_after_warm_up_is_explained_by_what_was_compiled_before_the_block(x):
    launch(x, 17)
    with recompile_tracker(plain_kernel, allow=0):
        launch(x, 18)
    with pytest.raises(Recompile) as raised, recompile_tracker(plain_kernel):
        site = launch(x, 32)
    assert str(raised.value) == f"plain_kernel was compiled for 1 key, allowed 0:\n  `n`: i32 (other) -> 32 (multiple of 16) at {site}"
    with pytest.raises(Recompile, match="option num_warps: absent -> 8"), recompile_tracker():
        launch(x, 32, num_warps=8)


def test_a_first_compile_lists_every_argument(x):
    with pytest.raises(Recompile) as raised, recompile_tracker(plain_kernel):
        site = launch(x, 17)
    assert str(raised.value).splitlines()[1] == (
        "  first compile, with `x_ptr`: *fp32 (aligned to 16 bytes), `n`: 17 (other), `stride`: 3 (other), `BLOCK`: 16 (constexpr) "
        f"at {site}"
    )


def test_other_kernels_are_ignored_when_kernels_are_named(x):
    with recompile_tracker(sized_kernel) as log:
        launch(x, 17)
    assert log.events == []
    with pytest.raises(Recompile, match="plain_kernel was compiled for 1 key"), recompile_tracker():
        launch(x, 32)


def test_the_limit_is_each_kernels_own(x):
    with recompile_tracker(plain_kernel, sized_kernel, allow=1):
        launch(x, 17)
        sized_kernel[(1,)](x, 1, 1, 17, 0.5, flag=True, BLOCK=16)
    with pytest.raises(Recompile) as raised, recompile_tracker(plain_kernel, sized_kernel):  # noqa: PT012 - raised at the end of the block
        launch(x, 32)
        sized_kernel[(1,)](x, 1, 1, 32, 0.5, flag=True, BLOCK=16)
    assert [line.split()[0] for line in str(raised.value).splitlines() if not line.startswith(" ")] == ["plain_kernel", "sized_kernel"]


def test_a_warm_up_counts_and_is_marked(x):
    with recompile_tracker(plain_kernel, allow=1) as log:
        plain_kernel.warmup(x, 17, 3, BLOCK=16, grid=(1,))
        launch(x, 17)
    assert [event.is_warmup for event in log.events] == [True]
    assert log.events[0].site.startswith(__file__)


def test_a_key_that_an_emptied_cache_compiles_again_counts_once(x):
    with recompile_tracker(plain_kernel, allow=1) as log:
        launch(x, 17)
        with triton_adapter.fresh_caches(plain_kernel):
            launch(x, 17)
    assert (len(log.events), len(log.keys)) == (2, 1)


@pytest.mark.parametrize(("kernel", "compiles"), [(tuned_kernel, 2), (heuristic_kernel, 1)], ids=["autotune", "heuristics"])
def test_compiles_under_autotune_and_heuristics_are_seen_at_the_users_line(x, kernel, compiles):
    with recompile_tracker(kernel, allow=compiles) as log:
        kernel[(1,)](x, 17, 3)
    assert len(log.keys) == compiles
    assert {event.site.rpartition(":")[0] for event in log.events} == {__file__}


def test_an_exception_from_inside_the_block_is_not_masked(x):
    with pytest.raises(ZeroDivisionError), recompile_tracker(plain_kernel):  # noqa: PT012
        launch(x, 17)
        raise ZeroDivisionError


def test_trackers_nest_and_each_has_its_own_limit(x):
    with recompile_tracker(plain_kernel, allow=2) as outer:
        launch(x, 17)
        with recompile_tracker(plain_kernel, allow=1) as inner:
            launch(x, 32)
    assert (len(outer.events), len(inner.events)) == (2, 1)
    with recompile_tracker(plain_kernel, allow=1), pytest.raises(Recompile), recompile_tracker(plain_kernel):
        launch(x, 1)


def test_it_works_in_the_body_of_a_property(x):
    @settings(max_examples=300, deadline=None, database=None)  # one draw in 16 is in the other class
    @given(n=st.integers(2, 1000))
    def at_most_one_key(n):
        with recompile_tracker(plain_kernel, allow=1):
            launch(x, n)
            launch(x, 17)

    with pytest.raises(Recompile, match=r"`n`: 16 \(multiple of 16\) -> 17 \(other\)"):
        at_most_one_key_shrinks(at_most_one_key)


def at_most_one_key_shrinks(test):
    """Run a property with empty caches for every example, as a case of its own would have."""
    inner = test.hypothesis.inner_test

    def isolated(**drawn):
        with triton_adapter.fresh_caches(plain_kernel):
            inner(**drawn)

    test.hypothesis.inner_test = isolated
    test()


@pytest.mark.parametrize("slot", SLOTS)
def test_hooks_that_were_installed_are_called_and_are_back_after(x, slot):
    calls = []
    with installed(slot, lambda **event: calls.append(event["key"])):
        theirs = triton_adapter.get_hook(slot)
        with recompile_tracker(plain_kernel, allow=1) as log:
            launch(x, 17)
        assert triton_adapter.get_hook(slot) is theirs
    assert len(calls) == len(log.events) == 1


@pytest.mark.parametrize("slot", SLOTS)
def test_hooks_are_back_when_an_installed_one_raises(x, slot):
    def refusing(**_event):
        raise PermissionError("no compiles while serving")

    with installed(slot, refusing):
        with pytest.raises(PermissionError, match="no compiles while serving"), recompile_tracker(plain_kernel, allow=1) as log:
            launch(x, 17)
        assert triton_adapter.get_hook(slot) is refusing
    assert len(log.events) == (1 if slot == "jit_post_compile_hook" else 0)
    assert all(triton_adapter.get_hook(name) is None for name in SLOTS)


def test_a_compile_that_an_installed_hook_cancels_is_no_event(x):
    with installed("jit_cache_hook", lambda **_event: True), recompile_tracker(plain_kernel) as log:
        launch(x, 17)
        launch(x, 17)
    assert log.events == []
    assert triton_adapter.cached_bindings(plain_kernel) == ()


def test_a_hook_that_stays_on_top_goes_on_working_and_ours_is_silent(x):
    with recompile_tracker(plain_kernel, allow=1) as log:
        ours = triton_adapter.get_hook("jit_post_compile_hook")
        triton_adapter.set_hook("jit_post_compile_hook", lambda **event: (ours(**event), None)[1])
        launch(x, 17)
    try:
        launch(x, 32)
        assert len(log.events) == 1
    finally:
        triton_adapter.set_hook("jit_post_compile_hook", None)


def test_a_preload_counts_though_no_launch_asked_for_it(x):
    data = []
    with installed("jit_post_compile_hook", lambda **event: data.append(event["compile"]["specialization_data"])):
        launch(x, 17)
    assert json.loads(data[0])["name"].endswith("plain_kernel")
    with triton_adapter.fresh_caches(plain_kernel):
        with pytest.raises(Recompile, match=r"plain_kernel was compiled for 1 key(.|\n)*at unknown"), recompile_tracker(plain_kernel):
            plain_kernel.preload(data[0])
        with recompile_tracker(plain_kernel) as log:
            launch(x, 17)
    assert log.events == []


def test_a_warm_launch_calls_nothing_of_the_tracker(x):
    launch(x, 17)
    with recompile_tracker(plain_kernel):
        seen = []
        for slot in SLOTS:
            hook = triton_adapter.get_hook(slot)
            triton_adapter.set_hook(slot, lambda hook=hook, **event: seen.append(event) or hook(**event))
        assert triton.runtime.jit.JITFunction.run is triton_adapter._RUN
        launch(x, 17)
        assert seen == []
    for slot in SLOTS:
        triton_adapter.set_hook(slot, None)


def test_what_is_no_kernel_is_refused_before_the_block():
    with pytest.raises(InvalidSpec, match=r"is not a triton\.jit function"), recompile_tracker(torch.add):
        raise AssertionError("the block ran")
    with pytest.raises(ValueError, match="allow=-1: expected the number of compiles that may happen"), recompile_tracker(allow=-1):
        raise AssertionError("the block ran")


def test_recording_does_not_limit(x):
    with recording_compiles() as log:
        for n in (1, 16, 17):
            launch(x, n)
    assert len(log.keys) == 3

import contextlib

import pytest
import torch
import triton
import triton.language as tl
from launching import NoOperation, heuristic_kernel, launching, plain_kernel, sized_kernel, tuned_kernel

from difftest import triton_adapter
from difftest.compile_log import recording_compiles
from difftest.errors import InvalidPolicy
from difftest.policy import INTEGERS, NO_ALIGNMENT, NONE, PRODUCTION, SPECIALIZE_ALL, SpecializationPolicy, builtin_policies, powerset

X = torch.zeros(64)
SAMPLES = {
    sized_kernel: {"x_ptr": X, "H": 4, "W": 4, "n": 17, "scale": 0.5, "flag": True, "BLOCK": 16},
    plain_kernel: {"x_ptr": X, "n": 17, "stride": 1, "BLOCK": 16},
}


def flags(kernel):
    parameters = triton_adapter.parameters(triton_adapter.jit_function(kernel))
    return (
        {one.name for one in parameters if one.do_not_specialize},
        {one.name for one in parameters if one.do_not_specialize_on_alignment},
    )


@pytest.mark.parametrize(
    ("policy", "excluded", "unaligned"),
    [
        (PRODUCTION, {"H", "W"}, set()),
        (SPECIALIZE_ALL, set(), set()),
        (NONE, {"H", "W", "n", "scale", "flag"}, set()),
        (INTEGERS, {"H", "W", "n"}, set()),
        (NO_ALIGNMENT, {"H", "W"}, {"x_ptr"}),
        (SpecializationPolicy("n only", ("n",), ("x_ptr",)), {"n"}, {"x_ptr"}),
    ],
    ids=lambda value: value.name if isinstance(value, SpecializationPolicy) else "",
)
def test_a_policy_excludes_what_it_says_and_is_undone(policy, excluded, unaligned):
    decorated = flags(sized_kernel)
    with policy.apply([sized_kernel], SAMPLES):
        assert flags(sized_kernel) == (excluded, unaligned)
    assert flags(sized_kernel) == decorated == ({"H", "W"}, set())


@pytest.mark.parametrize("policy", builtin_policies(), ids=lambda policy: policy.name)
def test_a_policy_starts_from_an_empty_cache_and_gives_the_old_one_back(policy):
    with launching(sized_kernel) as x:
        caches = sized_kernel.device_caches
        sized_kernel[(1,)](x, 4, 4, 17, 0.5, flag=True, BLOCK=16)
        with policy.apply([sized_kernel], SAMPLES), recording_compiles(sized_kernel) as log:
            sized_kernel[(1,)](x, 4, 4, 17, 0.5, flag=True, BLOCK=16)
        assert len(log.events) == 1
        assert sized_kernel.device_caches is caches


@pytest.mark.parametrize("policy", builtin_policies(), ids=lambda policy: policy.name)
def test_a_policy_is_undone_when_an_exception_passes(policy):
    decorated, caches = flags(sized_kernel), sized_kernel.device_caches
    with contextlib.suppress(ZeroDivisionError), policy.apply([sized_kernel], SAMPLES):
        raise ZeroDivisionError
    assert flags(sized_kernel) == decorated
    assert sized_kernel.device_caches is caches


def test_production_writes_no_flag():
    class Watched(list):
        """Parameters of which nobody may write a flag."""

    class ReadOnly:
        def __init__(self, parameter):
            object.__setattr__(self, "parameter", parameter)

        def __getattr__(self, name):
            return getattr(self.parameter, name)

        def __setattr__(self, name, value):
            raise AssertionError(f"{name} was written")

    params = sized_kernel.params
    sized_kernel.params = Watched(map(ReadOnly, params))
    try:
        with PRODUCTION.apply([sized_kernel], SAMPLES):
            pass
        with pytest.raises(AssertionError, match="do_not_specialize was written"), SPECIALIZE_ALL.apply([sized_kernel], SAMPLES):
            pass
    finally:
        sized_kernel.params = params


def test_an_emptied_decorator_stays_emptied_under_production():
    with triton_adapter.set_specialization(sized_kernel, frozenset(), frozenset()), PRODUCTION.apply([sized_kernel], SAMPLES):
        assert flags(sized_kernel) == (set(), set())


def launch_from_another_module(x, n):
    """Stands for a third party's launcher: it calls a module-level kernel."""
    plain_kernel[(1,)](x, n, 1, BLOCK=16)


def test_an_unmodified_launcher_meets_the_policy():
    with launching(plain_kernel) as x:
        counts = []
        for policy in (SPECIALIZE_ALL, NONE):
            with policy.apply([plain_kernel], SAMPLES), recording_compiles(plain_kernel) as log:
                for n in (1, 16, 17):
                    launch_from_another_module(x, n)
            counts.append(len(log.events))
    assert counts == [3, 1]


@pytest.mark.parametrize(("kernel", "configs"), [(tuned_kernel, 2), (heuristic_kernel, 1)], ids=["autotune", "heuristics"])
def test_a_policy_reaches_under_autotune_and_heuristics(kernel, configs):
    with launching(kernel) as x:
        counts = []
        for policy in (SPECIALIZE_ALL, NONE):
            tuned_kernel.cache.clear()
            with policy.apply([kernel], SAMPLES), recording_compiles(kernel) as log:
                for n in (1, 16, 17):
                    kernel[(1,)](x, n, 1)
            counts.append(len(log.events))
    assert counts == [3 * configs, configs]


def test_a_name_that_is_no_parameter_is_refused_with_a_suggestion():
    with pytest.raises(InvalidPolicy) as raised, SpecializationPolicy("mine", ("strid",)).apply([plain_kernel], SAMPLES):
        pass
    assert str(raised.value) == (
        "policy 'mine': 'strid' is not a parameter of "
        "plain_kernel(x_ptr, n, stride, BLOCK) or sized_kernel(x_ptr, H, W, n, scale, flag, BLOCK); did you mean 'stride'?"
    )


def test_a_constexpr_is_refused():
    with pytest.raises(InvalidPolicy) as raised, SpecializationPolicy("mine", ("BLOCK",)).apply([plain_kernel], {}):
        pass
    assert str(raised.value) == (
        "policy 'mine': 'BLOCK' is a constexpr of plain_kernel(x_ptr, n, stride, BLOCK): its value is always part of the key; "
        "take it off the list"
    )


def test_a_name_of_only_one_of_the_kernels_is_fine():
    with SpecializationPolicy("strides", ("stride",)).apply([sized_kernel, plain_kernel], SAMPLES):
        assert (flags(sized_kernel)[0], flags(plain_kernel)[0]) == (set(), {"stride"})


@pytest.mark.parametrize("entries", [["n"], (1,), "n"])
def test_lists_are_tuples_of_names(entries):
    with pytest.raises(InvalidPolicy, match=r"is not a tuple of parameter names; write \('num_tokens',\)"):
        SpecializationPolicy("mine", entries)


def test_listing_what_has_no_effect_is_reported():
    sample = {sized_kernel: {**SAMPLES[sized_kernel], "n": None, "H": (1, 2)}}
    with SpecializationPolicy("mine", ("scale", "flag", "n", "H", "W")).apply([sized_kernel], sample) as applied:
        pass
    assert applied.notes == (
        "listing `scale` has no effect: it is a float, which Triton treats alike under every policy",
        "listing `flag` has no effect: it is a bool, which Triton treats alike under every policy",
        "listing `n` has no effect: it is None, which Triton treats alike under every policy",
        "listing `H` has no effect: it is a tuple, whose members Triton specializes all the same",
    )


def test_a_kernel_whose_arguments_nobody_saw_is_reported():
    with NONE.apply([sized_kernel, plain_kernel], {sized_kernel: SAMPLES[sized_kernel]}) as applied:
        assert flags(plain_kernel) == (set(), set())
    assert applied.notes[-1] == (
        "plain_kernel was not launched by the sample: which of its arguments are scalars is not known, and all are specialized"
    )


def test_no_alignment_keeps_what_the_decorator_excludes():
    @triton.jit(do_not_specialize=[2], do_not_specialize_on_alignment=["n"])
    def decorated_kernel(x_ptr, n, m, B: tl.constexpr):
        tl.store(x_ptr, n + m)

    with NO_ALIGNMENT.apply([decorated_kernel], {decorated_kernel: {"x_ptr": X, "n": 1, "m": 1, "B": 1}}):
        assert flags(decorated_kernel) == ({"m"}, {"n", "x_ptr"})


def test_the_powerset_has_every_subset_of_the_integers_once():
    policies = powerset(SAMPLES)
    assert len({frozenset(policy.do_not_specialize) for policy in policies}) == len(policies) == 2**4
    assert {name for policy in policies for name in policy.do_not_specialize} == {"H", "W", "n", "stride"}
    assert len({policy.name for policy in policies}) == len(policies)


def test_a_powerset_that_nobody_would_run_is_refused():
    sample = {plain_kernel: {f"n{index}": 1 for index in range(9)}}
    with pytest.raises(InvalidPolicy, match=r"the powerset of 9 integer arguments .* has 512 policies; at most 8 are taken"):
        powerset(sample)


def test_kernels_compiled_under_a_policy_run(monkeypatch):
    launched = []
    monkeypatch.setattr(NoOperation, "run", lambda _self, *launch: launched.append(launch[:3]))
    with launching(plain_kernel) as x, NONE.apply([plain_kernel], SAMPLES):
        plain_kernel[(3,)](x, 1, 1, BLOCK=16)
    assert launched == [(3, 1, 1)]

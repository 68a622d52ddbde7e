import pytest
import torch
import triton
import triton.language as tl
from launching import plain_kernel, sized_kernel

from difftest import triton_adapter
from difftest.case import Case
from difftest.contract import Contract, check_decorator, check_variants, check_variation, groups_of
from difftest.errors import InvalidContract
from difftest.specialization import compile_key

X = torch.zeros(64)
CONTRACT = Contract(do_not_specialize=("H", "W"))


@triton.jit(do_not_specialize=["num_token", "B", 1, 9], do_not_specialize_on_alignment=["x_ptr"])
def careless_kernel(x_ptr, num_tokens, B: tl.constexpr):
    tl.store(x_ptr, num_tokens)


def keys_of(argument, values, kernel=sized_kernel, **others):
    bound = {"x_ptr": X, "H": 4, "W": 4, "n": 17, "scale": 0.5, "flag": True, "BLOCK": 16, **others}
    if kernel is plain_kernel:
        bound = {"x_ptr": X, "n": 17, "stride": 3, "BLOCK": 16, **others}
    return [(Case(value=value), compile_key(kernel, (), {**bound, argument: value}, "cuda:90")) for value in values]


def test_a_decorator_that_keeps_the_contract_has_no_problems():
    assert check_decorator(CONTRACT, [sized_kernel]) == ()
    assert check_decorator(CONTRACT, [sized_kernel, plain_kernel]) == ()


def test_an_emptied_list_and_a_dropped_name_are_named():
    words = "sized_kernel: the contract says do_not_specialize {!r}, and the decorator does not list it: its class causes compiles"
    with triton_adapter.set_specialization(sized_kernel, frozenset(), frozenset()):
        assert check_decorator(CONTRACT, [sized_kernel]) == (words.format("H"), words.format("W"))
    with triton_adapter.set_specialization(sized_kernel, frozenset({"W"}), frozenset()):
        assert check_decorator(CONTRACT, [sized_kernel]) == (words.format("H"),)


def test_an_extra_name_is_named_in_either_list():
    words = "sized_kernel: the decorator lists {!r} in {}, and the contract does not: list it in both or in neither"
    assert check_decorator(Contract(do_not_specialize=("H",)), [sized_kernel]) == (words.format("W", "do_not_specialize"),)
    with triton_adapter.set_specialization(sized_kernel, frozenset({"H", "W"}), frozenset({"x_ptr"})):
        assert check_decorator(CONTRACT, [sized_kernel]) == (words.format("x_ptr", "do_not_specialize_on_alignment"),)


def test_entries_of_a_decorator_that_mean_nothing_are_named():
    contract = Contract(do_not_specialize=("num_tokens",), do_not_specialize_on_alignment=("x_ptr",))
    assert [problem.removeprefix("careless_kernel: the decorator lists ") for problem in check_decorator(contract, [careless_kernel])] == [
        "'num_token' in do_not_specialize, which is no parameter: Triton ignores it; did you mean 'num_tokens'?",
        "'B' in do_not_specialize, which is a constexpr: its value is part of the key all the same",
        "9 in do_not_specialize, which is no parameter: Triton ignores it; known: B, num_tokens, x_ptr",
    ]


def test_a_name_that_no_kernel_has_is_refused_with_a_suggestion():
    with pytest.raises(InvalidContract) as raised:
        check_decorator(Contract(do_not_specialize=("num_token",)), [careless_kernel])
    assert str(raised.value) == "'num_token' is not a parameter of careless_kernel(x_ptr, num_tokens, B); did you mean 'num_tokens'?"


def test_a_constexpr_is_refused():
    with pytest.raises(InvalidContract, match="'BLOCK' is a constexpr: its value is always part of the key; take it off the contract"):
        check_decorator(Contract(do_not_specialize=("BLOCK",)), [sized_kernel])


def test_the_decorator_is_read_under_autotune_and_heuristics():
    tuned = triton.autotune([triton.Config({"BLOCK": 16})], key=["n"])(triton.heuristics({"flag": lambda _arguments: True})(sized_kernel))
    assert check_decorator(CONTRACT, [tuned]) == ()
    assert len(check_decorator(Contract(), [tuned])) == 2


def test_moving_an_excluded_argument_is_accepted_when_it_could_have_failed():
    result = check_variation("H", keys_of("H", [1, 16, 17]))
    assert (result.problems, result.could_fail) == ((), True)


def test_moving_a_specialized_argument_is_a_problem_in_words():
    result = check_variation("n", keys_of("n", [17, 32, 1, 18]))
    assert result.problems == ("`n`: 17 (other) -> 32 (multiple of 16)", "`n`: 17 (other) -> 1 (equal to 1)")


def test_with_the_name_dropped_the_pairs_object():
    with triton_adapter.set_specialization(sized_kernel, frozenset({"W"}), frozenset()):
        assert check_variation("H", keys_of("H", [17, 32])).problems == ("`H`: 17 (other) -> 32 (multiple of 16)",)
        assert check_variation("W", keys_of("W", [17, 32])).problems == ()


def test_crossing_the_width_is_a_problem_under_every_list():
    assert check_variation("H", keys_of("H", [17, 2**31])).problems == ("`H`: 17 (not specialized) -> 2147483648 (64-bit not specialized)",)


@pytest.mark.parametrize(("argument", "values"), [("H", [3, 5, 7]), ("H", [17]), ("H", []), ("scale", [1.0, 16.0, 0.5]), ("absent", [])])
def test_pairs_that_reach_one_class_could_not_fail(argument, values):
    result = check_variation(argument, keys_of(argument, values))
    assert (result.problems, result.could_fail) == ((), False)


def test_options_that_moved_along_are_named():
    one, other = keys_of("H", [17])[0], keys_of("H", [17], num_warps=8)[0]
    assert check_variation("H", [one, other]).problems == ("option num_warps: absent -> 8",)
    swapped = keys_of("H", [17], num_warps=8, num_stages=2)[0], keys_of("H", [17], num_stages=2, num_warps=8)[0]
    assert check_variation("H", swapped).problems[0].startswith("options in another order")


def test_more_variants_than_declared_are_named():
    keys = [key for _case, key in keys_of("n", [17, 32, 1, 18])]
    assert check_variants(Contract(max_variants=3), keys) == ()
    assert check_variants(Contract(), keys) == ()
    (problem,) = check_variants(Contract(max_variants=2), keys)
    assert problem.startswith("sized_kernel has 3 keys where constexprs, options, dtypes and alignments are equal, allowed 2: `n`: ")


def test_constexprs_options_dtypes_and_alignment_make_groups_of_their_own():
    half = torch.zeros(64, dtype=torch.bfloat16)
    variants = [{}, {"BLOCK": 32}, {"num_warps": 8}, {"x_ptr": half}, {"x_ptr": half[1:]}, {"x_ptr": None}]
    keys = [key for others in variants for _case, key in keys_of("n", [17, 32], plain_kernel, **others)]
    assert [len(group) for group in groups_of(keys)] == [2] * len(variants)
    assert check_variants(Contract(max_variants=2), keys) == ()
    assert len(check_variants(Contract(max_variants=1), keys)) == len(variants)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"do_not_specialize": ["H"]}, r"do_not_specialize=\['H'\] is not a tuple of parameter names; write \('num_tokens',\)"),
        ({"do_not_specialize_on_alignment": (1,)}, r"do_not_specialize_on_alignment=\(1,\) is not a tuple of parameter names"),
        ({"max_variants": 0}, "max_variants=0: expected at least 1, or None for no limit"),
        ({"do_not_specialize": ("H",), "vary": {"h": list}}, "vary names 'h', which the contract lets cause compiles"),
        ({"do_not_specialize": ("H",), "vary": {"H": 3}}, r"vary\['H'\]=3 is not a function from a case to cases"),
    ],
)
def test_a_contract_that_cannot_work_is_refused(fields, text):
    with pytest.raises(InvalidContract, match=text):
        Contract(**fields)

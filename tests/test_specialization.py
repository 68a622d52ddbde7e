import pytest
import torch
import triton
import triton.language as tl
from launching import launching, plain_kernel, sized_kernel

from difftest import triton_adapter
from difftest.specialization import cached_keys, class_in_words, classes_of, compile_key, distance, explain, scalar_class

X = torch.zeros(64)


def sized(H=4, W=4, n=17, scale=1.0, *, x=X, flag=True, target="cuda:90", **options):
    return compile_key(sized_kernel, (x, H, W, n, scale, flag), {"BLOCK": 16, **options}, target)


def plain(n=17, x=X, **options):
    return compile_key(plain_kernel, (x, n, 3), {"BLOCK": 16, **options}, "cuda:90")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1, "1"),
        (0, "multiple of 16"),
        (-32, "multiple of 16"),
        (17, "other"),
        (2**31, "64-bit multiple of 16"),
        (2**40 + 1, "64-bit other"),
        (2**63 + 1, "unsigned 64-bit other"),
        (1.0, "float"),
        (True, "bool"),
        (None, "None"),
        ((16, 1, 0.5), "(multiple of 16, 1, float)"),
    ],
)
def test_the_class_of_a_scalar_in_words(value, words):
    assert scalar_class(value) == words


def test_classes_of_values_keep_the_first_value_of_each():
    assert classes_of([3, 1, 16, 17, 32, 2**31]) == {"other": 3, "1": 1, "multiple of 16": 16, "64-bit multiple of 16": 2**31}


def test_a_class_is_asked_of_triton_and_not_computed(monkeypatch):
    monkeypatch.setattr(triton_adapter, "specialize", lambda value, _target: ("i32", "" if value % 64 else "D"))
    assert (scalar_class(32), scalar_class(64)) == ("other", "multiple of 16")


def test_pointer_classes_in_words_on_both_targets():
    assert [class_in_words("*fp32", made) for made in ("D", "", None, "DS", "S")] == [
        "aligned to 16 bytes",
        "not aligned to 16 bytes",
        "not specialized",
        "aligned to 16 bytes, under 2 GB",
        "not aligned to 16 bytes, under 2 GB",
    ]


def test_equal_classes_give_equal_keys_and_the_values_differ():
    assert plain(17) == plain(18)
    assert hash(plain(17)) == hash(plain(18))
    assert plain(17).argument("n").value != plain(18).argument("n").value
    assert plain(17) != plain(32)


def test_an_excluded_argument_is_not_in_the_key_and_keeps_its_own_class():
    assert sized(H=1) == sized(H=16) == sized(H=3)
    assert [sized(H=h).argument("H").unpolicied for h in (1, 16, 3)] == ["1", "multiple of 16", "other"]
    assert sized(H=3).argument("H").in_words == "not specialized"


def test_classes_name_what_generation_reached_under_any_policy():
    assert sized(H=16).classes() >= {"`H` multiple of 16", "`n` other", "`scale` float", "`flag` bool", "`x_ptr` aligned to 16 bytes"}
    assert not any("BLOCK" in words for words in sized().classes())


def test_explain_names_argument_value_and_class():
    assert explain(plain(17), plain(32)) == ("`n`: 17 (other) -> 32 (multiple of 16)",)
    assert explain(plain(32), plain(1)) == ("`n`: 32 (multiple of 16) -> 1 (equal to 1)",)
    assert explain(plain(17), plain(18)) == ()
    assert sized(H=16) != sized(H=2**31)
    assert explain(sized(H=16), sized(H=2**31)) == ("`H`: 16 (not specialized) -> 2147483648 (64-bit not specialized)",)


def test_explain_names_constexprs_pointers_options_and_target():
    words = explain(plain(x=X), plain(x=torch.zeros(64, dtype=torch.bfloat16)[1:], num_warps=8))
    assert words == ("`x_ptr`: *fp32 (aligned to 16 bytes) -> *bf16 (not aligned to 16 bytes)", "option num_warps: absent -> 8")
    assert explain(sized(), sized(target="hip:gfx942"))[-1] == "target: cuda:90 -> hip:gfx942"
    wide = compile_key(plain_kernel, (X, 17, 3), {"BLOCK": 64}, "cuda:90")
    assert explain(plain(), wide) == ("`BLOCK`: 16 (constexpr) -> 64 (constexpr)",)


def test_every_pair_of_different_keys_has_words():
    keys = [plain(17), plain(32), plain(1), plain(17, num_warps=2), plain(17, num_warps=8), plain(17, enable_fp_fusion=False)]
    assert all((one == other) == (not explain(one, other)) == (one.text == other.text) for one in keys for other in keys)
    assert distance(keys[0], keys[1]) == 1


def test_options_in_another_order_are_another_key_as_for_triton():
    one, other = plain(num_warps=2, num_stages=3), plain(num_stages=3, num_warps=2)
    assert one.text != other.text
    assert one != other
    assert explain(one, other)[0].startswith("options in another order: num_warps, num_stages")


def test_a_one_and_a_true_constexpr_are_two_keys():
    @triton.jit
    def switched_kernel(x_ptr, SWITCH: tl.constexpr):
        tl.store(x_ptr, SWITCH)

    one, other = (compile_key(switched_kernel, (X, value), {}, "cuda:90") for value in (1, True))
    assert one != other
    assert one.text != other.text
    assert explain(one, other) == ("`SWITCH`: 1 (constexpr) -> True (constexpr)",)


def test_cached_keys_are_those_that_were_compiled():
    with launching(plain_kernel) as x:
        assert cached_keys(plain_kernel) == ()
        plain_kernel[(1,)](x, 17, 3, BLOCK=16)
        plain_kernel[(1,)](x, 1, 3, BLOCK=16, num_warps=2)
        launches = [(17, {"BLOCK": 16}), (1, {"BLOCK": 16, "num_warps": 2})]
        assert list(cached_keys(plain_kernel)) == [compile_key(plain_kernel, (x, n, 3), kwargs) for n, kwargs in launches]
        assert cached_keys(plain_kernel)[0].in_words().startswith("`x_ptr`: *fp32 (aligned to 16 bytes), `n`: i32 (other)")


def test_a_key_keeps_no_tensor_alive():
    assert all("tensor" not in repr(one).lower() for one in plain().arguments)

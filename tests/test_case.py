"""A case is a small value: immutable, JSON-able, and printed as Python."""

from __future__ import annotations

import json
import keyword
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from difftest.case import Case
from difftest.errors import InvalidCase

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
names = st.from_regex(r"[a-z]{1,5}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8)


@given(st.dictionaries(names, values, max_size=5))
def test_the_repr_and_the_json_of_a_case_give_the_case_back(fields):
    case = Case.from_fields(fields)
    assert eval(repr(case), {"Case": Case}) == case  # noqa: S307 - this is the claim
    assert Case.from_json(case.to_json()) == case
    assert hash(Case.from_json(case.to_json())) == hash(case)
    assert pickle.loads(pickle.dumps(case)) == case  # noqa: S301 - our own bytes


def test_the_order_of_fields_does_not_matter_for_equality():
    assert Case(a=1, b=2) == Case(b=2, a=1)
    assert Case(a=1) != Case(a=1.5)
    assert Case(a=True).to_json() != Case(a=1).to_json()


def test_lists_become_tuples_and_dicts_become_cases():
    case = Case(shape=[1, [2]], fill={"kind": "normal"})
    assert case.shape == (1, (2,))
    assert case.fill.kind == "normal"


def test_a_case_is_immutable_and_says_how_to_change_it():
    with pytest.raises(InvalidCase, match=r"use case\.replace\(h=5\)"):
        Case(h=4).h = 5
    assert Case(h=4).replace(h=5) == Case(h=5)


def test_a_missing_field_is_named_with_the_closest_one():
    with pytest.raises(InvalidCase, match=r"'widht' is not a field of Case\(width=3\); did you mean 'width'\?"):
        _ = Case(width=3).widht


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, b"bytes"])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(InvalidCase, match="x="):
        Case(x=value)


@pytest.mark.parametrize("text", ["", "[1]", "3", "{", "[" * 100_000, '{"a": NaN}'])
def test_text_that_is_no_case_is_refused(text):
    with pytest.raises(InvalidCase):
        Case.from_json(text)


@pytest.mark.parametrize("name", ["if", "two words", "", "_hidden"])
def test_a_field_that_python_could_not_name_is_refused(name):
    with pytest.raises(InvalidCase, match="cannot name a field"):
        Case.from_fields({name: 1})


def test_canonical_json_has_sorted_keys():
    assert list(json.loads(Case(b=1, a=2).to_json())) == ["a", "b"]

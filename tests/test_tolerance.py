"""What counts as agreement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from difftest.errors import InvalidSpec
from difftest.tolerance import error_ratio, exact, ulp, within

NAN, INF = float("nan"), float("inf")


def test_limits_follow_the_baseline_only_where_the_rule_says_so():
    assert (exact.limit(5.0), ulp(2).limit(5.0), error_ratio(1.5, floor=1).limit(4.0)) == (0.0, 2.0, 7.0)


def test_a_tolerance_reads_as_it_is_written():
    assert [str(one) for one in (exact, ulp(1.5), error_ratio(2, floor=0.5))] == ["exact", "ulp(1.5)", "error_ratio(c=2, floor=0.5)"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ulp(0.25), r"ulp\(0.25\): the limit must be a finite number of ULPs of at least 0.5, .*use exact"),
        (lambda: ulp(NAN), r"ulp\(nan\): the limit must be a finite"),
        (lambda: ulp("1"), r"ulp\('1'\): the limit must be a finite"),
        (lambda: ulp(n=True), r"ulp\(True\): the limit must be a finite"),
        (lambda: error_ratio(0.5), r"error_ratio\(c=0.5\): c must be a finite number of at least 1, so that plain torch itself passes"),
        (lambda: error_ratio(INF), r"error_ratio\(c=inf\): c must be a finite"),
        (lambda: error_ratio(2, floor=-1), r"error_ratio\(floor=-1\): floor must be a finite number of ULPs of at least 0"),
        (lambda: error_ratio(2, floor=NAN), r"error_ratio\(floor=nan\): floor must be"),
    ],
)
def test_a_tolerance_that_cannot_work_says_so(make, text):
    with pytest.raises(InvalidSpec, match=text):
        make()


@pytest.mark.parametrize(("error", "limit"), [(NAN, 1.0), (NAN, INF), (0.0, NAN), (INF, 1.0), (1.0000001, 1.0)])
def test_nan_and_larger_errors_are_not_within_a_limit(error, limit):
    assert not within(error, limit)


def test_an_error_at_the_limit_is_within_it():
    assert within(1.0, 1.0)


def test_a_tolerance_is_declared_without_loading_torch():
    code = "import sys, difftest.tolerance; print('torch' in sys.modules)"
    root = Path(__file__).resolve().parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout.strip() == "False"

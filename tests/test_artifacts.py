"""Replay files: whole or absent, checked before they are believed."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from difftest.artifacts import read_replay, write_replay
from difftest.case import Case
from difftest.errors import CacheUnusable, Disagreement, ReplayError

CELL = SimpleNamespace(
    spec=SimpleNamespace(name="scale"),
    policy=SimpleNamespace(name="production"),
    dtype="float32",
    engine=SimpleNamespace(name="simulator", target="cuda:90"),
)
CASE = Case(dtype="float32", seed=3, rows=2, fill="normal")


def written(directory):
    return write_replay(directory, CELL, CASE, Disagreement("it differs"), session_seed=7, reference="reference/scale.py")


def test_a_written_case_is_read_back(tmp_path):
    file = read_replay(written(tmp_path / "new"))
    assert file.case == CASE
    assert (file.kernel, file.policy, file.dtype, file.engine, file.target) == ("scale", "production", "float32", "simulator", "cuda:90")
    assert (file.seed, file.finding, file.message) == (7, "disagreement", "it differs")


def test_no_temporary_file_is_left(tmp_path):
    path = written(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "mangle", [lambda text: text[:40], lambda _text: "[]", lambda _text: "[" * 50_000, lambda text: text.replace("{", "(")]
)
def test_a_damaged_file_is_refused_with_its_path(tmp_path, mangle):
    path = written(tmp_path)
    path.write_text(mangle(path.read_text()))
    with pytest.raises(ReplayError, match=path.name):
        read_replay(path)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("schema", 2, "schema 2, and this difftest reads schema 1; replay with the version that wrote it"),
        ("kernel", 3, "field 'kernel' is 3, expected str"),
        ("case", [1], "field 'case' is .*, expected dict"),
        ("case", {"x": 1e999}, "field 'case': x=inf: a case holds finite floats only"),
        ("policy", None, "field 'policy' is None, expected str"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, field, value, text):
    path = written(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(ReplayError, match=text):
        read_replay(path)


def test_a_missing_file_says_which_path_to_pass(tmp_path):
    with pytest.raises(ReplayError, match="pass the path that the failing run printed"):
        read_replay(tmp_path / "absent.json")


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.json"
    path.write_bytes(b" " * (1 << 21))
    with pytest.raises(ReplayError, match="a replay file has at most"):
        read_replay(path)


def test_a_directory_that_cannot_be_written_is_named_and_the_case_is_kept_in_the_message(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CacheUnusable, match=r"make it writable, or pass --difftest-failures=DIR\. The case: Case\(dtype='float32'"):
        written(blocked / "inside")


@pytest.mark.skipif(os.getuid() == 0, reason="root writes to read-only directories")
def test_a_read_only_directory_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(CacheUnusable):
        written(tmp_path / "inside")

"""Locations of Triton IR as a person reads them: file, line and the text of that line."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from difftest.engines.simulator.mlir import split_top

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)(?: to .*)?$')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)$')
_TRITON_LIBRARY = "/triton/language/"


@dataclass(frozen=True)
class Locations:
    """The location aliases of a module."""

    aliases: Mapping[str, str]

    def where(self, location: str) -> str:
        """Return "file.py:12: `text of the line`" of the innermost frame outside Triton's own library."""
        frames = self.frames(location)
        if not frames:
            return "an unknown line"
        file, line = next((frame for frame in frames if _TRITON_LIBRARY not in frame[0]), frames[0])
        text = linecache.getline(file, line).strip()
        return f"{_short(file)}:{line}" + (f": `{text}`" if text else "")

    def frames(self, location: str) -> list[tuple[str, int]]:
        """Return the (file, line) of each frame, the innermost first."""
        location = self.aliases.get(location, location).strip()
        if location.startswith("callsite("):
            callee, _, caller = _split_callsite(location[len("callsite(") : -1])
            return self.frames(callee) + self.frames(caller)
        if location.startswith("fused"):
            return [frame for part in split_top(location[location.index("[") + 1 : -1]) for frame in self.frames(part)]
        if match := _FILE.match(location):
            return [(match[1], int(match[2]))]
        if match := _NAMED.match(location):
            return self.frames(match[1])
        return []


def _split_callsite(text: str) -> tuple[str, str, str]:
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and text.startswith(" at ", index):
            return text[:index], " at ", text[index + 4 :]
    return text, "", ""


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file

"""Loads the plugin where difftest runs from the working tree and is not installed."""

from __future__ import annotations

from importlib.metadata import entry_points

if not any(point.value == "difftest.plugin" for point in entry_points(group="pytest11")):
    pytest_plugins = ["difftest.plugin"]

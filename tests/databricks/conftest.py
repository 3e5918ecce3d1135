"""The fake workspace as a fixture; the SDK finds it in the environment, as in an app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databricks.workspace import Workspace, running


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """A workspace of its own; its DATABRICKS_* variables are set."""
    with running() as workspace:
        for name, value in workspace.environment().items():
            monkeypatch.setenv(name, value)
        yield workspace

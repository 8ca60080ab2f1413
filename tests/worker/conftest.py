"""A manager for the tests of one module, and the store that it writes to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimizers.manager import Manager
from optimizers.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def manager(store: Store) -> Iterator[Manager]:
    manager = Manager(store)
    yield manager
    manager.close()

"""What the environment says, and what counts as said."""

from __future__ import annotations

import pytest

from optimizers.settings import settings


@pytest.mark.parametrize(
    ("said", "port"), [(None, None), ("8000", 8000), ("65535", 65535), ("0", None), ("65536", None), ("http", None)]
)
def test_a_port_is_one_that_exists(said: str | None, port: int | None) -> None:
    assert settings({} if said is None else {"LEVERS_PORT": said}).port == port

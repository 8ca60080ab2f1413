"""What the environment says, and what counts as said."""

from __future__ import annotations

import pytest

from optimizers.settings import settings


@pytest.mark.parametrize(
    ("said", "port"), [(None, None), ("8000", 8000), ("65535", 65535), ("0", None), ("65536", None), ("http", None)]
)
def test_a_port_is_one_that_exists(said: str | None, port: int | None) -> None:
    found = settings({} if said is None else {"LEVERS_PORT": said})
    assert found.port == port
    unread = ("LEVERS_PORT is no port (1 to 65535), so it counts as absent.",)
    assert found.unread == (unread if said is not None and port is None else ())


def test_memory_that_is_no_number_of_bytes_is_named() -> None:
    found = settings({"LEVERS_MEMORY_BYTES": "8GB"})
    assert found.memory_bytes is None
    assert found.unread == ("LEVERS_MEMORY_BYTES is no whole number of bytes, so it counts as absent.",)
    assert settings({"LEVERS_MEMORY_BYTES": "8000", "LEVERS_PORT": ""}).unread == ()

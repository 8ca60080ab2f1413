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


def test_a_switch_that_is_neither_on_nor_off_is_off_and_said_so() -> None:
    for said in ("no", "true", " 1"):
        found = settings({"LEVERS_ALLOW_FOLDERS": said, "LEVERS_ALLOW_ENGINES": "1"})
        assert (found.allow_folders, found.allow_engines) == (False, True)
        assert found.unread == ("LEVERS_ALLOW_FOLDERS is neither 1 nor 0, so it counts as 0.",)
    for said in ("0", "1"):
        found = settings({"LEVERS_ALLOW_FOLDERS": said})
        assert (found.allow_folders, found.unread) == (said == "1", ())
    assert not settings({"SPACE_ID": "me/app"}).allow_history and settings({}).allow_history
    assert settings({"SPACE_ID": "me/app", "LEVERS_ALLOW_HISTORY": "1"}).allow_history
    found = settings({"LEVERS_ALLOW_FOLDERS": ""})
    assert (found.allow_folders, found.unread) == (True, ())

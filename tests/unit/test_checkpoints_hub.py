"""Hub ids against a small hub on this machine, against a closed port, and against one that never answers."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import tiny
from huggingface_hub import constants

from optimizers import checkpoints
from optimizers.checkpoints import hub
from optimizers.errors import CheckpointBroken, CheckpointNotFound, CheckpointRefused, HubUnreachable

SHA = "0123456789abcdef0123456789abcdef01234567"
MODEL = "someone/tiny-llama"


class SmallHub(ThreadingHTTPServer):
    """Serves one folder as MODEL the way the hub does: its description, its list of files, its files."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.asked: list[str] = []
        self.answer: tuple[int, str] | None = None  # an error for everything: status and the hub's error code
        self.file_answer: tuple[int, str] | None = None  # the same for the files alone

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())


class Handler(BaseHTTPRequestHandler):
    server: SmallHub

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, body: bool = True) -> None:
        path = urlsplit(self.path).path
        self.server.asked.append(path)
        if self.server.answer is not None:
            self.fail(*self.server.answer)
        elif path in (f"/api/models/{MODEL}", f"/api/models/{MODEL}/revision/main"):
            self.send(json.dumps(self.describe()).encode(), body)
        elif path == f"/api/models/{MODEL}/tree/{SHA}":
            self.send(json.dumps(self.tree()).encode(), body)
        elif path.startswith(f"/{MODEL}/resolve/{SHA}/"):
            self.file(path.split(f"{SHA}/", 1)[1], body)
        else:
            self.fail(404, "RepoNotFound")

    def file(self, name: str, body: bool) -> None:
        if self.server.file_answer is not None:
            self.fail(*self.server.file_answer)
        else:
            self.send((self.server.folder / name).read_bytes(), body, ETag=f'"{abs(hash(name)):x}"')

    def describe(self) -> dict[str, object]:
        files = [{"rfilename": entry["path"], "size": entry["size"]} for entry in self.tree()]
        return {"id": MODEL, "modelId": MODEL, "sha": SHA, "siblings": files, "tags": [], "private": False}

    def tree(self) -> list[dict[str, object]]:
        return [
            {
                "type": "file",
                "path": path.relative_to(self.server.folder).as_posix(),
                "size": path.stat().st_size,
                "oid": f"{number:040x}",
            }
            for number, path in enumerate(self.server.files())
        ]

    def send(self, data: bytes, body: bool, **extra: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Repo-Commit", SHA)
        for name, value in extra.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def fail(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, no token, no offline switch, and no remembered answer."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(checkpoints, "_default", [])
    return tmp_path / "hub"


def use_endpoint(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    address = f"http://127.0.0.1:{port}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)


@pytest.fixture
def small_hub(tiny_llama: Path, tmp_path: Path, hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallHub]:
    folder = Path(shutil.copytree(tiny_llama, tmp_path / "served"))
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}")
    with SmallHub(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use_endpoint(monkeypatch, server.server_port)
        yield server
        server.shutdown()


@pytest.fixture
def closed_port(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    use_endpoint(monkeypatch, port)


@pytest.fixture
def silent_port(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that accepts connections and says nothing; waited for a fifth of a second in place of two."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        use_endpoint(monkeypatch, listener.getsockname()[1])
        monkeypatch.setattr("optimizers.settings.HUB_TIMEOUT_S", 0.2)
        yield


def test_a_model_is_downloaded_with_progress(small_hub: SmallHub, tiny_llama: Path, hub_cache: Path) -> None:
    heard: list[tuple[str, float | None]] = []
    found = checkpoints.resolve(MODEL, lambda *said: heard.append(said))
    assert (found.id, found.source, found.revision, found.licence) == (MODEL, "hub", SHA, "mit")
    assert found.parameters == checkpoints.resolve(str(tiny_llama)).parameters
    assert Path(found.folder).is_relative_to(hub_cache)
    assert any(text.startswith(f"Fetching {MODEL} (") and share and 0 < share <= 1 for text, share in heard)
    fetched = {path.split(f"{SHA}/")[1] for path in small_hub.asked if "/resolve/" in path}
    assert fetched == {path.name for path in tiny_llama.iterdir()} | {"README.md"}


def test_a_cached_model_needs_no_network(
    small_hub: SmallHub, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    before = checkpoints.resolve(MODEL)
    request.getfixturevalue("closed_port")
    assert checkpoints.resolve(MODEL) == before
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert checkpoints.resolve(MODEL) == before
    entries = [entry for entry in checkpoints.known() if entry.source == "hub"]
    assert [(entry.id, entry.cached, entry.parameters) for entry in entries] == [(MODEL, True, before.parameters)]


def test_a_cached_model_that_is_not_whole(small_hub: SmallHub, request: pytest.FixtureRequest) -> None:
    weights = Path(checkpoints.resolve(MODEL).folder) / "model.safetensors"
    request.getfixturevalue("closed_port")
    weights.unlink()
    with pytest.raises(CheckpointBroken, match=r"model\.safetensors"):
        checkpoints.resolve(MODEL)
    assert [entry.id for entry in checkpoints.known() if entry.source == "hub"] == []


@pytest.mark.usefixtures("closed_port")
def test_no_hub_in_reach() -> None:
    with pytest.raises(HubUnreachable) as caught:
        checkpoints.resolve(MODEL)
    assert MODEL in caught.value.reason
    assert "smollm2-135m" in caught.value.remedy
    assert checkpoints.known()[0].source == "packaged"


@pytest.mark.usefixtures("silent_port")
def test_a_hub_that_never_answers() -> None:
    with pytest.raises(HubUnreachable, match=r"no answer from http://127.0.0.1:\d+ within 0.2 seconds"):
        checkpoints.resolve(MODEL)


def test_name_resolution_that_hangs(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, names = threading.Event(), []

    def hang(name: str, *_: object, **__: object) -> None:
        names.append(name)
        done.wait(60)
        raise OSError("no such host")

    monkeypatch.setattr("optimizers.settings.HUB_TIMEOUT_S", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with pytest.raises(HubUnreachable):
        checkpoints.resolve(MODEL)
    assert checkpoints.default_model()[0] == "smollm2-135m"
    assert len(names) == 2
    done.set()


def test_offline_by_choice(small_hub: SmallHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubUnreachable, match="HF_HUB_OFFLINE is set"):
        checkpoints.resolve(MODEL)
    assert small_hub.asked == []


def test_a_model_that_the_hub_does_not_know(small_hub: SmallHub) -> None:
    with pytest.raises(CheckpointNotFound, match="someone/else") as caught:
        checkpoints.resolve("someone/else")
    assert "spelling" in caught.value.remedy


def test_a_gated_model(small_hub: SmallHub) -> None:
    small_hub.file_answer = (403, "GatedRepo")
    with pytest.raises(CheckpointRefused, match="gated") as caught:
        checkpoints.resolve(MODEL)
    assert f"/{MODEL}" in caught.value.remedy


def test_a_hub_in_trouble(small_hub: SmallHub) -> None:
    small_hub.answer = (503, "")
    with pytest.raises(HubUnreachable, match="503"):
        checkpoints.resolve(MODEL)


def weights_asked(server: SmallHub) -> list[str]:
    return [path for path in server.asked if path.endswith((".safetensors", ".bin"))]


def test_only_pickled_weights_are_refused_before_they_are_fetched(small_hub: SmallHub) -> None:
    (small_hub.folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointRefused, match=r"pytorch_model\.bin"):
        checkpoints.resolve(MODEL)
    assert weights_asked(small_hub) == []


def test_another_kind_of_model_is_refused_before_it_is_fetched(small_hub: SmallHub) -> None:
    tiny.edit_config(small_hub.folder, architectures=["BertForSequenceClassification"], model_type="bert")
    with pytest.raises(CheckpointRefused, match="BertForSequenceClassification"):
        checkpoints.resolve(MODEL)
    assert weights_asked(small_hub) == []


def test_the_default_is_the_original_where_the_hub_answers(
    small_hub: SmallHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "DEFAULT_HUB_MODEL", MODEL)
    model, why = checkpoints.default_model()
    assert model == MODEL
    assert MODEL in why
    asked = len(small_hub.asked)
    assert checkpoints.default_model() == (model, why)
    assert len(small_hub.asked) == asked


@pytest.mark.usefixtures("closed_port")
def test_the_default_is_the_packaged_one_elsewhere() -> None:
    model, why = checkpoints.default_model()
    assert model == "smollm2-135m"
    assert "packaged" in why
    assert "no answer" in why


def test_a_default_that_the_hub_lacks_is_the_packaged_one(small_hub: SmallHub) -> None:
    assert checkpoints.default_model()[0] == "smollm2-135m"


def test_without_a_hub_cache_only_the_packaged_models_are_known(hub_cache: Path) -> None:
    assert {entry.source for entry in checkpoints.known()} == {"packaged"}
    assert list(hub.cached()) == []

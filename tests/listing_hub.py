"""A hub on this machine that answers searches: real HTTP and the listing's JSON, as slow, wrong or unwilling as a test
wants it. It knows no model besides those in its listing and serves no file."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

SMALL = {
    "id": "someone/tiny-135m",
    "safetensors": {"parameters": {"BF16": 134_515_008}, "total": 134_515_008},
    "gated": False,
    "tags": ["transformers", "safetensors", "llama", "license:apache-2.0"],
    "config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
}
MIDDLE = {
    **SMALL,
    "id": "someone/tiny-500m",
    "safetensors": {"parameters": {"BF16": 500_000_000}, "total": 500_000_000},
    "gated": "manual",
}
LARGE = {
    **SMALL,
    "id": "someone/tiny-1700m",
    "safetensors": {"parameters": {"BF16": 1_700_000_000}, "total": 1_700_000_000},
    "tags": ["safetensors", "license:<img src=x onerror=window.__pwned=1>"],
}
PICKLED = {
    "id": "someone/tiny-pickled",
    "gated": False,
    "tags": ["transformers", "pytorch", "llama"],
    "config": {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
}


class ListingHub(ThreadingHTTPServer):
    """`asked` are the parameters of each search, `headers` what came with it; `answer` and `more` replace status, body
    and headers of all answers, `delays_s` holds back the answers to some texts; `answered` are the texts whose answers
    are over."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models: list[Any] = [SMALL, MIDDLE, LARGE, PICKLED]
        self.asked: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: tuple[int, bytes] | None = None
        self.more: dict[str, str] = {}
        self.delays_s: dict[str, float] = {}
        self.answered: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def texts(self) -> list[str]:
        return [asked["search"][0] for asked in self.asked]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left before the end is none of the test's business."""


class _Handler(BaseHTTPRequestHandler):
    server: ListingHub

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path != "/api/models":
            self.send(404, b"", {"X-Error-Code": "RepoNotFound"})
            return
        asked = parse_qs(address.query)
        self.server.asked.append(asked)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        text = asked["search"][0]
        time.sleep(self.server.delays_s.get(text, 0.0))
        try:
            self.answer(text, asked)
        finally:
            self.server.answered.append(text)

    def answer(self, text: str, asked: dict[str, list[str]]) -> None:
        if self.server.answer is not None:
            self.send(*self.server.answer, self.server.more)
        else:
            self.send(200, json.dumps(self.found(text, asked)).encode(), {})

    def found(self, text: str, asked: dict[str, list[str]]) -> list[object]:
        """The listed models whose ids hold the text, with what was asked for of each; what has no id comes always."""
        told = {"id", *asked["expand"]}
        fitting = [
            {name: value for name, value in model.items() if name in told} if isinstance(model, dict) else model
            for model in self.server.models
            if not isinstance(model, dict) or not isinstance(model.get("id"), str) or text in model["id"].lower()
        ]
        return fitting[: int(asked["limit"][0])]

    def send(self, status: int, body: bytes, more: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def listing_hub() -> Iterator[ListingHub]:
    with ListingHub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

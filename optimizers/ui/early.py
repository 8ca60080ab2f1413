"""A script that is in the page before any of Gradio's, which keep what the browser had when they came: what is given
to `launch(head=...)` is put in after them.

Covers the first document alone; everything else passes through untouched.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"<head>"


class Early:
    """ASGI middleware that puts `script` (JavaScript without a closing tag in it) at the top of the page's head."""

    def __init__(self, app: ASGIApp, script: str) -> None:
        self._app = app
        self._tag = HEAD + b"<script>" + script.encode() + b"</script>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/":
            return await self._app(scope, receive, send)
        begun: list[Message] = []
        body = bytearray()

        async def whole(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(message)
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                page = bytes(body).replace(HEAD, self._tag, 1)
                await send({**begun[0], "headers": _with_length(begun[0]["headers"], len(page))})
                await send({"type": "http.response.body", "body": page})

        return await self._app(scope, receive, whole)


def _with_length(headers: list[tuple[bytes, bytes]], length: int) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    return [*kept, (b"content-length", str(length).encode())]

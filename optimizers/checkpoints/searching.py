"""Searching the Hugging Face hub for language models by what a person has typed so far, in one request.

Covers the request, its limits, and reading the listing. That is a stranger's: of each entry what has another form than
it should is left out. It tells parameters by type (the hub reads them from the headers of safetensors files), tags, the
gate and parts of config.json; nothing more is asked for and no weight is read. The request carries no token, so only
what everybody may see is found. Whether a model fits this machine is judged in `planning/`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from huggingface_hub import constants, get_session
from huggingface_hub.utils import build_hf_headers, parse_ratelimit_headers  # type: ignore[attr-defined]

from optimizers import settings
from optimizers.checkpoints import headers, hub, kinds
from optimizers.errors import CheckpointNotFound, CheckpointRefused, HubUnreachable
from optimizers.results import Hit
from optimizers.schema import Obstacle

HITS = 8
LEAST_TEXT = 3
AT_ONCE = 4
REMEMBER_S = 300.0
REMEMBERED = 64
PAUSE_S = (5, 300)
"""After "too many requests" nothing is asked for as long as the hub says, within these bounds."""

_TELL = ("safetensors", "gated", "tags", "config")
_MOST_ANSWER_BYTES = 4 << 20
_MOST_PARAMETERS = 10**14
_MOST_TAGS, _MOST_TAG = 400, 200
_MOST_LICENCE, _MOST_REASON = 40, 300
# Where more of the values are whole numbers than masks and buffers make up, several weights are packed into each.
_PACKED_SHARE = 0.2
_OTHER_FORMATS = ("pytorch", "gguf", "tf", "jax", "keras", "onnx", "mlx", "openvino")
_OWNED = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_HERE = "Every model in the list works without it."

_turns = threading.BoundedSemaphore(AT_ONCE)
_lock = threading.Lock()
_known: dict[str, tuple[float, tuple[Hit, ...]]] = {}
_pause: list[float] = []  # when the last one that the hub asked for ends


def tidy(text: str) -> str:
    """What is searched for when `text` was typed."""
    return " ".join(text.split())[: settings.MOST_SEARCH_TEXT].lower()


def search(text: str) -> tuple[Hit, ...]:
    """At most HITS language models whose names hold `text`, the most downloaded first.

    Waits HUB_TIMEOUT_S at most, a request that hangs is left behind, and no more than AT_ONCE go on. What was found is
    remembered for minutes. Raises HubUnreachable when no usable answer came in time or the hub wants a pause."""
    wanted = tidy(text)
    with _lock:
        at, hits = _known.get(wanted, (-REMEMBER_S, ()))
        pause = max(_pause, default=0.0) - time.monotonic()
    if time.monotonic() - at < REMEMBER_S:
        return hits
    if constants.is_offline_mode():
        raise no_answer()
    if pause > 0:
        raise _too_many(pause)
    if not _turns.acquire(blocking=False):
        raise HubUnreachable("Too many searches of the hub go on at once.", "Wait a moment, then type on.")
    answers: list[tuple[Hit, ...] | HubUnreachable] = []
    thread = threading.Thread(target=_work, args=(wanted, answers), daemon=True, name="levers-search")
    thread.start()
    thread.join(settings.HUB_TIMEOUT_S)
    answer = answers[0] if answers else no_answer()
    if isinstance(answer, HubUnreachable):
        raise answer
    return answer


def no_answer() -> HubUnreachable:
    """What is said when the hub is silent."""
    return HubUnreachable(f"The Hugging Face hub cannot be searched ({hub.why_silent()}).", _HERE)


def _work(wanted: str, answers: list[tuple[Hit, ...] | HubUnreachable]) -> None:
    try:
        hits = _read(_listing(wanted))
        with _lock:
            _known.pop(wanted, None)
            _known[wanted] = time.monotonic(), hits
            while len(_known) > REMEMBERED:
                del _known[next(iter(_known))]
        answers.append(hits)
    except HubUnreachable as error:
        answers.append(error)
    except Exception:  # whatever the client raises (sockets, TLS, proxies): the hub gave no usable answer
        answers.append(no_answer())
    finally:
        _turns.release()


def _listing(wanted: str) -> bytes:
    """The hub's answer. HfApi.list_models asks the same, but without a time limit, and sleeps as long as it is told to
    before it tries again."""
    asked: dict[str, str | int | tuple[str, ...]] = {
        "search": wanted,
        "pipeline_tag": "text-generation",
        "sort": "downloads",
        "limit": HITS,
        "expand": _TELL,
    }
    body, until = bytearray(), time.monotonic() + settings.HUB_TIMEOUT_S
    with get_session().stream(
        "GET",
        f"{constants.ENDPOINT}/api/models",
        params=asked,
        headers=build_hf_headers(token=False),
        timeout=settings.HUB_TIMEOUT_S,
    ) as response:
        if response.status_code == 429:
            raise _too_many(_begin_pause(response.headers))
        if response.status_code != 200:
            raise HubUnreachable(f"The hub answered the search with error {response.status_code}.", _HERE)
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > _MOST_ANSWER_BYTES:
                raise _unreadable()
            if time.monotonic() > until:
                raise no_answer()
    return bytes(body)


def _begin_pause(said: Mapping[str, str]) -> float:
    least, most = PAUSE_S
    limits, told = parse_ratelimit_headers(said), said.get("Retry-After", "")
    asked = limits.reset_in_seconds if limits else int(told) if told.isdecimal() and len(told) < 9 else least
    seconds = min(max(asked, least), most)
    with _lock:
        _pause[:] = [time.monotonic() + seconds]
    return float(seconds)


def _too_many(seconds: float) -> HubUnreachable:
    return HubUnreachable(
        "The hub has had too many requests from here.", f"Type on in {max(1, round(seconds))} s. {_HERE}"
    )


def _unreadable() -> HubUnreachable:
    return HubUnreachable("The hub's answer to the search cannot be read.", _HERE)


def _read(body: bytes) -> tuple[Hit, ...]:
    """The hits in a listing, each model once. Raises HubUnreachable when it is none."""
    try:
        listed = json.loads(body)
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list):
        raise _unreadable()
    found = (_hit(entry) for entry in listed[:HITS])
    return tuple({hit.id: hit for hit in found if hit is not None}.values())


def _hit(entry: Any) -> Hit | None:
    """One model of a listing, None where it has no name that could be typed."""
    model = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(model, str) or not _OWNED.fullmatch(model):
        return None
    try:
        hub.check_name(model)
    except CheckpointNotFound:
        return None
    told, tags, config = entry.get("safetensors"), _texts(entry.get("tags")), entry.get("config")
    config = config if isinstance(config, dict) else {}
    parameters, disk_bytes = _size(told, "quantization_config" in config)
    return Hit(
        model,
        parameters,
        disk_bytes,
        licence=next((tag[8:][:_MOST_LICENCE] for tag in tags if tag.startswith("license:")), None),
        gated=entry.get("gated") in ("auto", "manual", True),
        refused=_refused(model, tags, config, bool(told)),
    )


def _texts(value: Any) -> tuple[str, ...]:
    listed = value[:_MOST_TAGS] if isinstance(value, list) else []
    return tuple(text for text in listed if isinstance(text, str) and len(text) <= _MOST_TAG and text.isprintable())


def _size(told: Any, quantized: bool) -> tuple[int | None, int | None]:
    """Parameters and bytes of the weights from the count of values of each stored type. None where that is not told,
    and of packed weights, of which the hub counts now the packed values and now what they hold."""
    counts = told.get("parameters") if isinstance(told, dict) else None
    if not isinstance(counts, dict) or not all(type(n) is int and 0 <= n <= _MOST_PARAMETERS for n in counts.values()):
        return None, None
    if not counts.keys() <= headers.DTYPES.keys():
        return None, None
    kinds_of = {name: headers.DTYPES[name] for name in counts}
    whole = sum(n for name, n in counts.items() if "int" in kinds_of[name][0])
    total = sum(counts.values())
    if not 0 < total <= _MOST_PARAMETERS or whole > _PACKED_SHARE * total or (quantized and whole):
        return None, None
    parameters = sum(n for name, n in counts.items() if "float" in kinds_of[name][0])
    return parameters or None, sum((n * kinds_of[name][1] + 7) // 8 for name, n in counts.items())


def _refused(model: str, tags: tuple[str, ...], config: dict[str, Any], safetensors: bool) -> Obstacle | None:
    """Why Levers would not load the model, as far as the listing tells."""
    try:
        if tags and not safetensors and "safetensors" not in tags:
            other = next((f"{name} files" for name in _OTHER_FORMATS if name in tags), "other files")
            raise headers.pickled_only(model, other)
        if kinds.model_type(config):
            kinds.refuse_config(config, model)
        elif "custom_code" in tags:
            raise kinds.own_code(model, "the hub tags it custom_code")
    except CheckpointRefused as error:
        return Obstacle(error.reason[:_MOST_REASON], error.remedy)
    return None

"""Searches against a small hub on this machine: what is asked, what is read of a listing, and what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import constants
from listing_hub import LARGE, MIDDLE, PICKLED, SMALL, ListingHub, listing_hub

from optimizers import api, checkpoints, planning
from optimizers.checkpoints import searching
from optimizers.errors import HubUnreachable
from optimizers.results import Hit

RUNTIME = 450_000_000  # what planning counts for the libraries of a process


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[ListingHub]:
    with listing_hub() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(searching, "_known", {})
        monkeypatch.setattr(searching, "_pause", [])
        monkeypatch.setattr(checkpoints, "_default", [])
        yield server


def listed(hub: ListingHub, **changes: Any) -> Hit:
    """What is read of SMALL with these changes."""
    hub.models = [{**SMALL, **changes}]
    searching._known.clear()
    (hit,) = checkpoints.search("tiny")
    return hit


def test_one_request_without_a_token_asks_for_all_that_is_told(
    hub: ListingHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert [hit.id for hit in checkpoints.search("  Tiny ")] == [SMALL["id"], MIDDLE["id"], LARGE["id"], PICKLED["id"]]
    assert hub.asked == [
        {
            "search": ["tiny"],
            "pipeline_tag": ["text-generation"],
            "sort": ["downloads"],
            "limit": ["8"],
            "expand": ["safetensors", "gated", "tags", "config"],
        }
    ]
    assert "authorization" not in hub.headers[0]


def test_bytes_and_parameters_come_from_the_count_of_each_type(hub: ListingHub) -> None:
    whole = listed(hub)
    assert (whole.parameters, whole.disk_bytes) == (134_515_008, 269_030_016)  # two bytes each
    mixed = listed(hub, safetensors={"parameters": {"F32": 10, "BF16": 100, "I64": 2, "BOOL": 5, "F4": 3}})
    # 10 x 4 + 100 x 2 + 2 x 8 + 5 x 1 + 3 half bytes, which fill 2; indices and masks are no parameters.
    assert (mixed.parameters, mixed.disk_bytes) == (113, 40 + 200 + 16 + 5 + 2)
    eight = listed(hub, safetensors={"parameters": {"F8_E4M3": 1000, "F32": 8}}, config={"quantization_config": {}})
    assert (eight.parameters, eight.disk_bytes) == (1008, 1032)


@pytest.mark.parametrize(
    "safetensors",
    [
        None,
        {},
        [],
        "many",
        {"total": 5},
        {"parameters": None},
        {"parameters": {}},
        {"parameters": {"BF16": -1}},
        {"parameters": {"BF16": True}},
        {"parameters": {"BF16": 1.5}},
        {"parameters": {"BF16": "10"}},
        {"parameters": {"BF16": 0}},
        {"parameters": {"BF16": 10**15}},
        {"parameters": {"BF16": 10**14, "F32": 10**14}},
        {"parameters": {"NEW_TYPE": 10}},
        {"parameters": {"U8": 60, "BF16": 40}},  # packed: how many weights a byte holds is not told
    ],
)
def test_a_size_that_is_not_told_or_makes_no_sense_is_unknown(hub: ListingHub, safetensors: object) -> None:
    hit = listed(hub, safetensors=safetensors)
    assert (hit.parameters, hit.disk_bytes, hit.refused) == (None, None, None)
    assert planning.judged(hit, 10**12).fit == "unknown"


def test_a_checkpoint_that_says_it_is_packed_has_no_known_size(hub: ListingHub) -> None:
    config = {**SMALL["config"], "quantization_config": {"quant_method": "gptq", "bits": 4}}
    hit = listed(hub, safetensors={"parameters": {"I32": 10, "F16": 90}}, config=config)
    assert (hit.parameters, hit.disk_bytes) == (None, None)


def test_whether_it_fits_is_judged_by_libraries_and_weights() -> None:
    hit = Hit("a/b", 1_000_000_000, 2_000_000_000)
    whole, stored = RUNTIME + 4_000_000_000, RUNTIME + 2_000_000_000
    limits = (whole, whole - 1, stored, stored - 1)
    assert [planning.judged(hit, limit).fit for limit in limits] == ["fits", "as stored", "as stored", "too large"]


def test_the_one_door_judges_by_the_memory_that_the_operator_allows(
    hub: ListingHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVERS_MEMORY_BYTES", "2000000000")  # 1.55 GB beside the libraries
    assert [hit.fit for hit in api.search("tiny")] == ["fits", "as stored", "too large", "unknown"]


def test_licence_and_gate(hub: ListingHub) -> None:
    assert listed(hub).licence == "apache-2.0"
    assert listed(hub, tags=["safetensors"]).licence is None
    assert listed(hub, tags=["safetensors", "license:" + "x" * 150]).licence == "x" * 40
    gates = [listed(hub, gated=said).gated for said in ("auto", "manual", True, False, None, "", {}, 1.5)]
    assert gates == [True, True, True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tags": ["pytorch"], "safetensors": None}, "only stored as pytorch files"),
        ({"tags": ["gguf"], "safetensors": None, "config": None}, "only stored as gguf files"),
        ({"tags": ["region:us"], "safetensors": None}, "only stored as other files"),
        ({"config": {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "m.Own"}}}, "program code of its own"),
        ({"config": None, "tags": ["safetensors", "custom_code"]}, "program code of its own"),
        ({"config": {"model_type": "bert", "architectures": ["BertModel"]}}, "not a causal language model"),
        ({"config": {"model_type": "unheard", "architectures": ["XForCausalLM"]}}, "does not know the model type"),
    ],
)
def test_what_would_be_refused_says_so_before_it_is_taken(
    hub: ListingHub, changes: dict[str, object], said: str
) -> None:
    refused = listed(hub, **changes).refused
    assert refused is not None
    assert said in refused.reason and SMALL["id"] in refused.reason
    assert refused.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tags": None},
        {"tags": [], "safetensors": None},
        {"config": None},
        {"config": {}},
        {"config": {"model_type": "llama", "auto_map": {"AutoModelForCausalLM": "m.LlamaForCausalLM"}}},
    ],
)
def test_what_is_not_told_refuses_nothing(hub: ListingHub, changes: dict[str, object]) -> None:
    assert listed(hub, **changes).refused is None


def test_entries_that_are_none_and_names_that_cannot_be_are_left_out(hub: ListingHub) -> None:
    names = ["<img src=x>/tiny", "tiny", "../tiny", "/etc/tiny", "a/b/tiny", "a/tiny\n", "a/--tiny", "é/tiny"]
    hub.models = [None, 7, [], "tiny", {}, {"id": 3}, {"id": None}, SMALL]
    assert [hit.id for hit in checkpoints.search("tiny")] == [SMALL["id"]]
    for name in names:
        hub.models = [{**SMALL, "id": name}]
        searching._known.clear()
        assert checkpoints.search("tiny") == ()


def test_a_model_listed_twice_is_one_and_more_than_asked_for_are_cut(hub: ListingHub) -> None:
    body = "[" + ",".join(['{"id": "a/tiny"}'] * 2 + [f'{{"id": "a/tiny{n}"}}' for n in range(50)]) + "]"
    hub.answer = 200, body.encode()
    assert [hit.id for hit in checkpoints.search("tiny")] == ["a/tiny", *(f"a/tiny{n}" for n in range(6))]


def test_hostile_fields_are_cut_or_left_out(hub: ListingHub) -> None:
    hit = listed(
        hub,
        tags=["license:a\x00b", "x" * 10_000, 5, None, *["t"] * 5000, "license:late"],
        config={"model_type": "x" * 5000, "architectures": ["<script>" * 5000]},
        gated=["auto"],
    )
    assert (hit.licence, hit.gated) == (None, False)
    assert hit.refused is not None and len(hit.refused.reason) <= 300


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, b"<html>no</html>"), "cannot be read"),
        ((200, b'{"error": "no"}'), "cannot be read"),
        ((200, b"[" * 200_000), "cannot be read"),
        ((200, b"\xff\xfe"), "cannot be read"),
        ((500, b""), "error 500"),
        ((403, b"[]"), "error 403"),
        ((200, b" " * (5 << 20)), "cannot be read"),
    ],
)
def test_an_answer_that_is_none_is_a_sentence_and_not_kept(
    hub: ListingHub, answer: tuple[int, bytes], said: str
) -> None:
    hub.answer = answer
    with pytest.raises(HubUnreachable, match=said) as caught:
        checkpoints.search("tiny")
    assert "works without it" in caught.value.remedy
    hub.answer = None
    assert len(checkpoints.search("tiny")) == 4


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ({"Retry-After": "60"}, 60),
        ({"Retry-After": "0"}, 5),
        ({"Retry-After": "86400"}, 300),
        ({"Retry-After": "soon"}, 5),
        ({"Retry-After": "9" * 30}, 5),
        ({"RateLimit": '"api";r=0;t=55', "Retry-After": "100"}, 55),
        ({"RateLimit": '"api";r=0;t=' + "9" * 30}, 300),
        ({}, 5),
    ],
)
def test_after_too_many_requests_the_hub_is_left_alone(hub: ListingHub, told: dict[str, str], seconds: int) -> None:
    assert len(checkpoints.search("tiny-1")) == 2
    hub.answer, hub.more = (429, b""), told
    with pytest.raises(HubUnreachable, match="too many requests"):
        checkpoints.search("tiny")
    hub.answer = None
    with pytest.raises(HubUnreachable, match="too many requests") as caught:
        checkpoints.search("another")
    assert f"in {seconds} s" in caught.value.remedy or f"in {seconds - 1} s" in caught.value.remedy
    assert hub.texts() == ["tiny-1", "tiny"]
    assert len(checkpoints.search("tiny-1")) == 2  # what is known needs no request


def test_a_slow_hub_is_waited_for_no_longer_than_agreed(hub: ListingHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizers.settings.HUB_TIMEOUT_S", 0.2)
    hub.delays_s = {"tiny": 1.0}
    with pytest.raises(HubUnreachable, match=r"no answer from http://127.0.0.1:\d+ within 0.2 seconds"):
        checkpoints.search("tiny")
    assert len(checkpoints.search("tiny-")) == 4


def test_no_more_than_a_few_go_on_at_once(hub: ListingHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_turns", threading.BoundedSemaphore(1))
    with searching._turns, pytest.raises(HubUnreachable, match="Too many searches"):
        checkpoints.search("tiny")
    assert hub.asked == []
    assert len(checkpoints.search("tiny")) == 4


def test_what_was_found_is_remembered_within_bounds(hub: ListingHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "REMEMBERED", 2)
    for text in ("tiny", "TINY ", "tiny-1", "tiny-5", "tiny-5", "tiny"):
        checkpoints.search(text)
    assert hub.texts() == ["tiny", "tiny-1", "tiny-5", "tiny"]
    assert list(searching._known) == ["tiny-5", "tiny"]
    monkeypatch.setattr(searching, "REMEMBER_S", 0.0)
    checkpoints.search("tiny")
    assert hub.texts()[-2:] == ["tiny", "tiny"]


def test_a_text_is_cut_and_a_short_one_asks_nothing_but_whether_there_is_a_hub(hub: ListingHub) -> None:
    assert checkpoints.search(" ti ") == checkpoints.search("") == ()
    assert hub.asked == []
    checkpoints.search("x" * 5000)
    assert hub.texts() == ["x" * 96]


@pytest.mark.parametrize("text", ["", "tiny"])
def test_without_a_hub_it_says_why_and_what_works(hub: ListingHub, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubUnreachable, match="HF_HUB_OFFLINE is set") as caught:
        checkpoints.search(text)
    assert caught.value.remedy == "Every model in the list works without it."
    monkeypatch.setattr(checkpoints, "_default", [])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubUnreachable, match=r"no answer from http://127\.0\.0\.1:9"):
        checkpoints.search(text)
    assert hub.asked == []


def test_a_hub_that_lacks_the_usual_model_is_not_called_out_of_reach(hub: ListingHub) -> None:
    model, why = checkpoints.default_model()
    assert model == "smollm2-135m"
    assert why.endswith("because the Hugging Face hub does not give the original to this machine.")

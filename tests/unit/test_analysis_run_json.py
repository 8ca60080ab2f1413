"""The finished run as a file: it survives its JSON form, whose names are those of the design."""

from __future__ import annotations

import json
from dataclasses import replace

import analysis_records as make
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, promised, two

from optimizers.analysis import compare
from optimizers.results import Run
from optimizers.schema import from_json, to_json


def full_run() -> Run:
    scores = (
        make.passage("answer:0", [0.1] * 3),
        make.passage("answer:1", [0.2] * 3),
        make.passage("text:0", [0.1] * 3),
    )
    base = make.measurement(BASE, STEPS, scores=(make.passage("text_timed", [0.0]),))
    fast = make.measurement("a", [0.25] * 6, scores=scores)
    missing = make.measurement("b", [], status="not_applied", reason="No.", remedy="Do.", census=make.census())
    record = make.record(base, fast, missing, replica=STEPS)
    variants = tuple(replace(item, promises=(promised("decode", 1.5, 3.0),)) for item in record.plan.variants)
    return compare(replace(record, plan=replace(record.plan, variants=variants)))


def test_a_run_survives_its_file() -> None:
    run = full_run()
    assert from_json(Run, to_json(run)) == run
    assert compare(two(STEPS)) == compare(two(STEPS))


def test_run_json_has_the_names_of_the_design() -> None:
    data = json.loads(to_json(full_run()))
    assert {
        "schema", "id", "created_at", "status", "machine", "model", "workload", "baseline", "noise_floor", "variants",
        "recommendation", "caveats",
    } <= data.keys()  # fmt: skip
    assert data["schema"] == "levers.run/1"
    assert data["model"].keys() >= {"id", "source", "revision", "task", "parameters", "architecture"}
    assert data["workload"].keys() >= {"prompts", "max_new_tokens", "batch_size", "rounds", "seed"}
    assert data["noise_floor"].keys() == {"decode", "ttft", "kl_divergence"}
    variant = data["variants"][1]
    assert variant.keys() >= {
        "key", "title", "techniques", "status", "reason", "remedy", "census", "cost", "points", "latency", "memory",
        "quality", "outputs", "samples_file", "versus_baseline", "promises",
    }  # fmt: skip
    assert variant["samples_file"] == "samples.jsonl"
    assert variant["census"].keys() >= {
        "bytes_by_dtype", "modules_converted", "modules_skipped", "attention", "compile", "providers",
    }  # fmt: skip
    assert variant["cost"].keys() == {"load_s", "prepare_s", "warm_up_s"}
    latency = {
        "ttft_s", "time_per_output_token_s", "decode_tokens_per_s", "prefill_tokens_per_s", "total_s", "stages",
    }  # fmt: skip
    assert variant["latency"].keys() == latency | {"tokens_per_step", "joules_per_token"}
    assert variant["latency"]["ttft_s"].keys() == {"median", "low", "high", "n"}
    assert variant["latency"]["stages"].keys() == {
        "tokenize_s", "prefill_s", "decode_s", "detokenize_s", "overhead_s",
    }  # fmt: skip
    assert variant["points"][0].keys() == {"batch_size", "prompt_tokens", "padding", "latency", "throughput"}
    assert variant["memory"].keys() >= {
        "weights_bytes", "disk_bytes", "load_peak_bytes", "steady_bytes", "run_peak_bytes", "runtime_bytes",
    }  # fmt: skip
    quality = variant["quality"]
    assert quality.keys() >= {
        "task", "positions", "kl_divergence", "same_top", "text", "first_divergence", "exact_match_rate",
        "length_ratio",
    }  # fmt: skip
    assert quality["kl_divergence"].keys() >= {"mean", "se", "max", "p99", "p95", "p90", "median"}
    assert quality["same_top"].keys() >= {"rate", "se"}
    assert quality["text"].keys() >= {
        "positions", "one_pass", "kl_divergence", "same_top", "perplexity", "rms_delta_p", "perplexity_ratio",
    }  # fmt: skip
    assert quality["text"]["perplexity_ratio"].keys() == {"value", "low", "high"}
    assert variant["outputs"][0].keys() >= {"prompt", "text", "token_ids", "stopped"}
    assert variant["versus_baseline"].keys() >= {"decode", "ttft", "weights_bytes", "run_peak_bytes"}
    assert variant["versus_baseline"]["decode"].keys() == {"ratio", "low", "high", "verdict"}
    assert variant["promises"][0].keys() >= {"claim", "promised", "measured", "kept", "why"}

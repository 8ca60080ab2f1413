"""The command line: words in, sentences, JSON and exit codes out. Some commands run as a person would run them."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import analysis_records as make
import pytest
import tiny
from rich.console import Console

from optimizers import analysis, api
from optimizers.analysis.statistics import spread
from optimizers.cli import commands, figures, main
from optimizers.cli.tables import finished, going_on
from optimizers.quality import Interval, PerByte, Quality
from optimizers.results import Lane, LiveRun, NoiseFloor, Run
from optimizers.schema import Cost, from_json

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 300.0

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERS_CACHE", str(cache))
    monkeypatch.delenv("LEVERS_RUNS", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "optimizers", *map(str, words)]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def workers_of(pid: int) -> list[int]:
    """Workers of a program, and the process that they are forked from: each names the program among its words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"optimizers.worker" in words and words[-2] == str(pid).encode():
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-t", "bf61"], "There is no technique named 'bf61'. Did you mean bf16"),
        (["-t", "bf16+fp32"], "names two techniques for precision: bf16 and fp32"),
        (["-t", ""], "The stack '' is empty"),
        (["--baseline", "nonsense"], "There is no technique named 'nonsense'."),
        (["--max-new-tokens", "0"], "The number of new tokens is 0. Ask for at least 1 new token."),
        (["--max-new-tokens", "100000"], "100000 new tokens do not fit: the context of"),
        (["--rounds", "0"], "The number of rounds is 0."),
        (["--seconds", "-5"], "The time budget is -5 seconds."),
        (["--threads", "1000"], "1000 threads were asked for"),
        (["--threads", "1,1000"], "1000 threads were asked for"),
        (["--threads", "1,1"], "The thread count 1 is named twice."),
        (["-t", "bf16+threads=none"], "has no whole number above 0 after threads="),
        (["--prompt", "  "], "Prompt 1 is blank."),
        (["--prompt", "word " * 400], "it is longer than the context of"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: list[str], sentence: str, tiny_llama: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(tiny_llama), *words]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.startswith("error: ") and said.err.count("\n") == 1
    assert said.out == ""
    assert api.runs() == ()


@pytest.mark.parametrize("text", ["two", "2,", "", "1.5", "2;1"])
def test_thread_counts_that_are_none_end_with_a_usage_message(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--threads", text])
    assert ended.value.code == 2
    assert f"{text!r} is not a whole number, nor several such as 2,1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"", "holds no prompt."),
        (b" \n\n", "holds no prompt."),
        (b"caf\xe9\n", "is not UTF-8 text (byte 3)."),
    ],
)
def test_a_prompt_file_that_cannot_be_used(
    content: bytes | None, sentence: str, tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prompts.txt"
    if content is not None:
        path.write_bytes(content)
    assert main(["compare", str(tiny_llama), "--prompts", str(path)]) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_that_holds_a_run_is_not_written_over(
    tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert main(["compare", str(tiny_llama), "--out", str(tmp_path)]) == 2
    assert "holds a run already (run.json)" in capsys.readouterr().err
    assert (tmp_path / "run.json").read_text() == "{}"


def test_a_checkpoint_that_cannot_be_used(tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["compare", str(empty)]) == 2
    assert "config.json" in capsys.readouterr().err
    remote = shutil.copytree(tiny_llama, tmp_path / "remote")
    tiny.edit_config(remote, auto_map={"AutoModelForCausalLM": "evil.Model"})
    assert main(["compare", str(remote)]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_unknown_words_are_argparse_s_affair(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["nonsense"], ["compare", "--rounds", "many"], ["compare", "--rounds", "1", "--seconds", "1"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 2
    assert "usage: python -m optimizers" in capsys.readouterr().err


def test_lists_as_json_and_as_tables(capsys: pytest.CaptureFixture[str], tiny_gpt2: Path) -> None:
    assert main(["techniques", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["id"] for row in listed["techniques"]} >= {"fp32", "bf16", "eager", "library_default", "bnb_nf4"}
    assert set(listed["techniques"][0]) >= {
        "id",
        "slot",
        "title",
        "summary",
        "promise",
        "available",
        "reason",
        "remedy",
    }
    assert listed["machine"]["usable_cores"] >= 1
    assert main(["models", "--json"]) == 0
    (entry,) = [item for item in json.loads(capsys.readouterr().out)["models"] if item["id"] == "smollm2-135m"]
    assert entry["source"] == "packaged" and entry["cached"] is False
    assert main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": []}
    for words in (["techniques", str(tiny_gpt2)], ["models"], ["runs"]):
        assert main(words) == 0
    said = capsys.readouterr().out
    assert "precision" in said and "smollm2-135m" in said and "No runs are kept yet." in said


def test_a_run_json_from_elsewhere_is_opened_and_a_run_removed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["runs", "--open", str(ROOT / "assets" / "sample.json"), "--json"]) == 0
    (kept,) = json.loads(capsys.readouterr().out)["runs"]
    assert kept["model"] == "smollm2-135m" and api.load(kept["id"]).id == kept["id"]
    assert main(["runs", "--open", str(ROOT / "assets" / "sample.json"), "--json"]) == 0
    again = next(run["id"] for run in json.loads(capsys.readouterr().out)["runs"] if run["id"] != kept["id"])
    assert main(["runs", "--compare", kept["id"], again, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["differences"] == [] and {pair["decode"]["verdict"] for pair in found["pairs"]} == {"within noise"}
    assert main(["runs", "--compare", kept["id"], again]) == 0
    assert "first / second" in capsys.readouterr().out
    assert main(["runs", "--remove", again]) == 0
    capsys.readouterr()
    assert main(["runs", "--remove", kept["id"]]) == 0
    assert "No runs are kept yet." in capsys.readouterr().out
    assert main(["runs", "--remove", kept["id"]]) == 2
    assert "There is no run" in capsys.readouterr().err
    (tmp_path / "notes.json").write_text("[]")
    for name, said in (("notes.json", "not the run.json of a comparison"), ("missing.json", "cannot be read")):
        assert main(["runs", "--open", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err


def test_a_recipe_is_written_into_an_empty_folder_or_it_is_said_why_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = api.keep((ROOT / "assets" / "sample.json").read_bytes())
    key = api.load(kept).baseline
    goal = tmp_path / "new" / "folder"
    assert main(["takeaway", kept, key, "--to", str(goal)]) == 0
    assert capsys.readouterr().out == f"Written: {goal / 'recipe.py'}\n"
    assert (goal / "recipe.py").read_text("utf-8") == api.recipe(kept, key)
    (tmp_path / "file").touch()
    for words, sentence in (
        ([kept, key, "--to", str(goal)], f"The folder {goal} is not empty. Name another with --to."),
        ([kept, key, "--to", str(tmp_path / "file")], "recipe.py cannot be written: File exists."),
        ([kept, "nothing", "--to", str(tmp_path / "other")], "has no variant 'nothing'. Measured in this run: "),
        (["nothing", key, "--to", str(tmp_path / "other")], "There is no run 'nothing' here."),
    ):
        assert main(["takeaway", *words]) == 2
        said = capsys.readouterr()
        assert sentence in said.err and said.out == ""
    assert not (tmp_path / "other").exists()
    api.delete(kept)


def test_json_is_alone_on_stdout_and_out_keeps_everything(tiny_llama: Path, tmp_path: Path) -> None:
    done = run(
        *("compare", tiny_llama, "-t", "bf16", "--prompt", "Alice", "--rounds", "9", "--max-new-tokens", "48"),
        *("--json", "--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    result: Run = from_json(Run, done.stdout)
    assert [variant.status for variant in result.variants] == ["measured", "measured"]
    assert result.variants[1].latency and result.variants[1].latency.ttft_s
    assert re.search(r"round \d+ of 9", done.stderr)  # a line a second: not each round is told
    assert "fp32+sdpa, bf16+sdpa" in done.stderr
    assert from_json(Run, (tmp_path / "out" / "run.json").read_bytes()) == result
    samples = (tmp_path / "out" / "samples.jsonl").read_text().splitlines()
    assert {json.loads(line)["variant"] for line in samples} == {"fp32+sdpa", "bf16+sdpa"}
    assert (tmp_path / "out" / "logs" / "bf16+sdpa.log").is_file()
    assert [summary.id for summary in api.runs()] == [result.id]
    assert api.watch(result.id).run == result


def test_a_technique_that_was_not_applied_is_exit_code_3_with_its_reason(tiny_gpt2: Path) -> None:
    """GPT-2 keeps its weights in Conv1D layers, which torch's dynamic int8 passes over."""
    words = ("-t", "int8_dynamic", "-t", "bnb_nf4+eager", "--rounds", "1", "--max-new-tokens", "4", "--prompt", "Alice")
    done = run("compare", tiny_gpt2, *words)
    assert done.returncode == 3, done.stderr
    assert "not applied" in done.stdout and "nn.Linear" in done.stdout
    assert "too few rounds" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_baseline_that_fails_is_exit_code_1(tiny_gpt2: Path) -> None:
    words = ("-t", "bf16", "--baseline", "int8_dynamic", "--rounds", "1", "--max-new-tokens", "4", "--json")
    done = run("compare", tiny_gpt2, *words)
    assert done.returncode == 1, done.stderr
    result: Run = from_json(Run, done.stdout)
    assert result.status == "failed" and result.reason and result.reason.startswith("The baseline failed. ")


def test_an_interrupt_stops_the_workers_and_keeps_what_was_measured(tiny_llama: Path) -> None:
    words = ("compare", tiny_llama, "-t", "bf16", "--rounds", "200", "--max-new-tokens", "8", "--json")
    heed = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    program_words = [sys.executable, "-c", heed, *command(*words)]  # interrupts are ignored where the tests run aside
    with subprocess.Popen(
        program_words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr
        said = []
        for line in program.stderr:
            said.append(line)
            if (found := re.search(r"round (\d+) of 200", line)) and int(found[1]) >= 3:
                break
        assert len(workers_of(program.pid)) == 4, said
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=240)
    assert program.returncode == 130, err
    assert "Traceback" not in err
    result: Run = from_json(Run, out)
    assert result.status == "cancelled"
    latency = result.variants[1].latency
    assert latency and latency.total_s and latency.total_s.n >= 2
    deadline = time.monotonic() + 5
    while workers_of(program.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers_of(program.pid) == []


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    with subprocess.Popen(
        command("techniques", "--json"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout and program.stderr
        program.stdout.close()
        assert program.stderr.read() == ""
    assert program.returncode == 141


@pytest.mark.parametrize(
    ("words", "redirected", "code"),
    [
        ("models", "<&- >&- 2>&-", 0),
        ("techniques", ">&-", 0),
        ("techniques ./nowhere", "2>&-", 2),
        ("techniques | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}", "", 141),
        pytest.param("models --json", ">/dev/full", 1, marks=FULL),
        pytest.param("models", ">/dev/full", 1, marks=FULL),
        pytest.param("techniques ./nowhere", "2>/dev/full", 2, marks=FULL),
    ],
)
def test_streams_that_are_closed_or_full_are_no_reason_for_a_traceback(words: str, redirected: str, code: int) -> None:
    line = f"{sys.executable} -m optimizers {words} {redirected}"
    program = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert program.returncode == code
    assert "Traceback" not in program.stderr
    assert program.stderr == "" or program.stderr.startswith("error: Something could not be read or written: No space")


def test_what_a_model_writes_cannot_touch_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    lane = Lane("k", "t", "ready", "s", "\x1b[2J[red]bold[/red]\x07\nnext", 0, 1.0, 1, 2, True)
    Console(force_terminal=False, width=120).print(going_on(LiveRun("r", 1, "running", "x", 0.5, 1.0, (lane,), None)))
    assert "[red]bold[/red] next" in capsys.readouterr().out


def test_a_budget_is_the_most_that_the_plan_says(capsys: pytest.CaptureFixture[str]) -> None:
    plan = make.plan("a")  # of ten seconds
    workload = replace(plan.choice.workload, seconds=60.0)
    for planned in (plan, replace(plan, choice=replace(plan.choice, workload=workload))):
        commands._Progress(Console(force_terminal=False, width=120)).plan(planned)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("; about 10 s") and second.endswith("; at most about 10 s")


def shown(run: Run, width: int) -> str:
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as captured:
        for part in finished(run, width):
            console.print(part)
    return captured.get()


def test_a_wide_table_says_what_a_start_cost_and_what_a_step_added() -> None:
    # Starts 4.25 s dearer and saves a fifth of a second on each token; twice as fast as the step below, the baseline.
    record = make.two([0.25] * 6, cost=Cost(2.0, 3.0, 1.0))
    foot, step = record.plan.variants
    ladder = replace(record, plan=replace(record.plan, variants=(foot, replace(step, below=foot.key))))
    wide = shown(analysis.compare(ladder), 200)
    assert re.search(r"a +2 s +3 s +1 s +after 22 tokens", wide)
    assert re.search(r"against the baseline +against the step below", wide)
    assert wide.count("2.00× (2.00–2.00) ▲ faster") == 2
    assert re.search(r"one request +tokenization +prompt pass +decode passes +sampling +Python +detokenization", wide)
    assert re.search(r"a +2 s +6.2 % +12.5 % +50.0 % +12.5 % +12.5 % +6.2 %", wide)
    assert "step below" not in shown(analysis.compare(record), 200)
    assert "pays for itself" not in shown(analysis.compare(record), 80)


def test_what_is_noise_is_called_so() -> None:
    assert figures.noise(NoiseFloor(0.25, 0.1, 5.1e-8)) == (
        "speed ratios between 0.75 and 1.25, first-token ratios between 0.90 and 1.10, a mean KL divergence of up to "
        "5.1e-08 nats (the baseline's text token by token against one pass)"
    )
    assert figures.noise(NoiseFloor(1.5, None, 1.7)) == "speed ratios between 0.00 and 2.50"
    assert figures.noise(NoiseFloor(None, None, None)) == ""
    quality = Quality("text_generation", 1, spread([2e-8]), None, None, None, (), None, None, within_noise=True)
    assert figures.kl_divergence(quality) == "0 ≈ within noise"
    assert figures.kl_divergence(replace(quality, within_noise=False)) == "0"


def test_joules_and_noise_are_in_the_tables_where_they_are_known() -> None:
    """Six requests of 10 joules for five tokens, and a floor of a thousandth of a nat above a KL of a tenth of that."""
    timed = [replace(sample, timing=replace(sample.timing, joules=10.0)) for sample in make.samples("a", make.STEPS)]
    base = make.measurement(make.BASELINE, make.STEPS, scores=(make.passage("text_timed", [0.001]),))
    other = make.measurement("a", [], samples=tuple(timed), scores=(make.passage("answer:0", [0.0001]),))
    wide = shown(analysis.compare(make.record(base, other, replica=make.STEPS)), 200)
    assert "joules a token" in wide and "2 (2–2)" in wide
    assert "0.0001 ≈ within noise" in wide
    assert "noise: speed ratios between 0.98 and 1.02" in wide and "up to 0.001 nats" in wide
    plain = make.record(
        make.measurement(make.BASELINE, make.STEPS), make.measurement("a", make.STEPS), replica=make.STEPS
    )
    assert "joules" not in shown(analysis.compare(plain), 200)


def test_a_model_of_other_tokens_has_its_perplexity_per_byte_in_words() -> None:
    quality = Quality("text_generation", 0, None, None, None, None, (), None, None, None)
    by_bytes = PerByte(400, 2, True, 2.48, 2.0, 1.31, 1.0, Interval(1.24, 1.1, 1.4), 200, 100, False)
    assert (figures.kl_divergence(None), figures.same_top(None)) == ("–", "–")
    assert (figures.kl_divergence(quality), figures.same_top(quality)) == ("–", "–")
    told = replace(quality, per_byte=by_bytes)
    assert (figures.kl_divergence(told), figures.same_top(told)) == ("1.24× perplexity/byte", "another model")

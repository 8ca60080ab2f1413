"""A text of the person's own: read, refused, cut into windows, planned for, kept in run.json and named. No torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import analysis_records as make
import planning_records as records
import pytest
from rich.console import Console

from optimizers import analysis, api, planning
from optimizers.cli import main
from optimizers.cli.tables import finished
from optimizers.errors import ChoiceError, TextError
from optimizers.planning import known, predictions
from optimizers.results import Run
from optimizers.schema import Record, Workload, from_json, to_json
from optimizers.scores import OwnText
from optimizers.tasks import own_text
from optimizers.tasks.text_generation import human_text, own_window, stretches, windows

BOOK = "Call me Ishmael. Some years ago, never mind how long precisely, I thought I would sail about a little. "
LARGE = b"a" * 8_000_001


def test_a_file_is_named_weighed_and_cut_between_letters(tmp_path: Path) -> None:
    path = tmp_path / "Über das\nMeer.txt"
    data = b"\xef\xbb\xbf" + ("é" * 40_000).encode()
    path.write_bytes(data)
    found = own_text.in_file(path)
    assert (found.name, found.called) == ("Über das?Meer.txt", "your text (Über das?Meer.txt)")
    assert (found.sha256, found.bytes) == (hashlib.sha256(data).hexdigest(), 80_003)
    assert found.head == "é" * 32_768  # 65,536 bytes, the mark at the file's head not among them
    path.write_bytes(b"x" + data[3:])
    assert own_text.in_file(path).head == "x" + "é" * 32_767  # half a letter more would fit
    assert own_text.in_file(tmp_path / path.name) == api.choose("m", text=path).workload.text
    assert api.choose("m", text=str(path)).workload.text == own_text.in_file(path)


def test_a_text_given_as_it_is_has_no_name() -> None:
    found = api.own_text("Once\r\nupon")
    assert found == OwnText("", hashlib.sha256(b"Once\r\nupon").hexdigest(), 10, "Once\r\nupon")
    assert found.called == "your text"
    assert api.choose("m", text=found).workload.text == found
    assert api.choose("m").workload.text is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty."),
        (b" \n\t\n", "is empty."),
        (b"\xef\xbb\xbf", "is empty."),
        (b" " * 70_000 + b"late", "begins with nothing but blanks, 65,536 bytes of them."),
        (b"caf\xe9 au lait", "is not UTF-8 text (byte 3)."),
        ("Once upon".encode("utf-16"), "is not text: it holds zero bytes."),
        (b"\x7fELF\x02\x01\x01\x00\x00", "is not text: it holds zero bytes."),
        (LARGE, "is larger than 8 MB."),
    ],
)
def test_a_file_that_is_no_text_is_one_sentence_and_exit_code_2(
    content: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    assert_refused(path, f"The text file {path} {sentence}", capsys)


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(tmp_path, f"The text file {tmp_path} cannot be read: Is a directory.", capsys)
    gone = tmp_path / "gone.txt"
    assert_refused(gone, f"The text file {gone} cannot be read: No such file or directory.", capsys)
    with pytest.raises(TextError, match="a name that no file can have"):
        api.choose("m", text="no\0name")


def assert_refused(path: Path, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "no-model-is-asked-for", "--text", str(path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"error: {sentence} ") and said.err.count("\n") == 1
    assert said.out == ""


def test_what_a_caller_may_hand_over_is_refused_in_words() -> None:
    for wrong in (b"bytes", 3, ["a"]):
        with pytest.raises(TextError, match="neither a file's name nor made by own_text"):
            api.choose("m", text=wrong)  # type: ignore[arg-type]
    with pytest.raises(TextError, match="its character 2 is half of one"):
        api.own_text("a\ud800")
    with pytest.raises(ChoiceError, match="A KL divergence cannot be summed over 'some'"):
        api.choose("m", kl_terms="some")  # type: ignore[arg-type]


def test_a_model_that_makes_one_token_of_it_is_told(tmp_path: Path) -> None:
    choice = replace(records.choice("bf16", text=api.own_text("a")))

    def planned(tokens: int | None) -> object:
        return planning.plan(choice, records.machine(), records.checkpoint(), 10**10, None, {}, tokens)

    with pytest.raises(TextError, match="This model makes 1 token of your text, and scoring takes 2"):
        planned(1)
    assert planned(2) and planned(None)


@pytest.mark.parametrize(
    ("context", "vocabulary", "longest"),
    [
        (2048, 49_152, 1365),  # 2^28 bytes over 4 x 49,152
        (1024, 49_152, 1023),  # the context less the token that is context
        (32_768, 151_936, 441),
        (131_072, 384, 4096),
        (0, 49_152, 256),  # what the model can carry is not known
        (2048, 100_000_000, 1),
    ],
)
def test_a_window_is_as_long_as_context_and_memory_allow(context: int, vocabulary: int, longest: int) -> None:
    assert own_window(context, vocabulary) == longest


def test_long_windows_follow_each_other_and_stop_at_the_last_position() -> None:
    passages = windows(range(5000), 2048, positions=4096, first_row=10, window=own_window(2048, 49_152))
    assert [len(passage.target_ids) for passage in passages] == [1365, 1365, 1365, 1, 64]
    assert [passage.context_ids for passage in passages[:3]] == [(0,), (1366,), (2732,)]
    assert [passage.row for passage in passages] == [10, 1375, 2740, 4105, 4106]


def test_memory_and_time_are_planned_for_its_windows() -> None:
    checkpoint = records.checkpoint(vocab_size=50_000, context_length=2048)
    plain, own = (Workload(("Hello",), text=text) for text in (None, own_text.typed(BOOK * 200)))
    fp32 = known(("fp32", "sdpa"))
    # 2^28 / 200,000 = 1342 positions in place of 256: two logits of 4 bytes for each of 50,000 words, and 2 x 10 layers
    # x 100 x 4 bytes of cache.
    more = (1342 - 256) * (2 * 4 * 50_000 + 2 * 10 * 100 * 4)
    sizes = [predictions.process_bytes(fp32, checkpoint, work) for work in (plain, own)]
    assert sizes[1] - sizes[0] == more
    short = Workload(("Hello",), text=own_text.typed("x" * 300))  # 300 bytes are 300 tokens at the most
    assert predictions.process_bytes(fp32, checkpoint, short) - sizes[0] == (300 - 256) * 408_000
    wide = records.checkpoint(vocab_size=50_000, context_length=2048, hidden_size=576)
    for names in (("fp32", "eager"), ("fp32", "onnxruntime")):  # 9 heads of 64, scores and their softmax in 4 bytes
        asked = [predictions.process_bytes(known(named), wide, own) for named in (("fp32", "sdpa"), names)]
        assert asked[1] - asked[0] == 2 * 9 * 1342**2 * 4
    # 103 x 200 bytes are about 5150 tokens, of which 4096 are scored, in place of 768, by two processes on one thread.
    seconds = [predictions.seconds([(fp32, checkpoint, 1)], work) for work in (plain, own)]
    assert len(BOOK) == 103
    assert seconds[1] - seconds[0] == pytest.approx(2 * (4096 - 768) * 100_000_000 * 2.1e-11)


def test_its_bytes_are_what_other_models_are_compared_on() -> None:
    *found, timed = stretches(own_text.typed(BOOK * 10).head, 2048)
    assert found[0].lead + "".join(stretch.text for stretch in found) == BOOK * 10
    assert timed.text == found[0].text and human_text()[:20] not in BOOK


def record_on(text: OwnText | None, **workload: object) -> Record:
    """A finished run on a text, whose variant disagrees with itself between the two paths."""
    scores = (
        make.passage("text:0", [0.01] * 4),
        make.passage("text:1", [0.03] * 4),
        make.passage("text_timed", [0.5] * 4),
    )
    found = make.two([0.25] * 6, scores=scores)
    choice = found.plan.choice
    work = replace(choice.workload, text=text, **workload)  # type: ignore[arg-type]
    return replace(found, plan=replace(found.plan, choice=replace(choice, workload=work)))


def test_run_json_names_a_long_text_and_holds_a_short_one() -> None:
    for text, kept in ((own_text.typed("s" * 2048), "s" * 2048), (own_text.typed("l" * 2049), "")):
        run = analysis.compare(record_on(text))
        assert run.workload.text == replace(text, head=kept)
        assert from_json(Run, to_json(run)) == run
    older = json.loads(to_json(analysis.compare(record_on(None))))
    del older["workload"]["text"], older["workload"]["kl_terms"]
    read: Run = from_json(Run, json.dumps(older))
    assert (read.workload.text, read.workload.kl_terms) == (None, "all")


def shown(run: Run) -> str:
    """The tables as a wide terminal has them."""
    console = Console(width=200, highlight=False, markup=False)
    with console.capture() as captured:
        for part in finished(run, 200):
            console.print(part)
    return captured.get()


def test_caveats_and_tables_say_which_text_and_which_rule() -> None:
    own = OwnText("moby\x1b[2J.txt", "0" * 64, 103, BOOK)
    usual, named = (analysis.compare(item) for item in (record_on(None), record_on(own, kl_terms="llama_cpp")))
    said = {caveat.id: caveat.text for caveat in named.caveats}
    assert "On the first 4 positions of your text (moby\x1b[2J.txt), a has a mean KL" in said["path_disagreement"]
    assert "-16 or less, as llama.cpp's perplexity tool does" in said["kl_terms"]
    table = shown(named)
    assert "On your text (moby" in table and "\x1b" not in table
    assert "KL (llama.cpp's rule)" in table and "packaged" not in table
    plain = {caveat.id: caveat.text for caveat in usual.caveats}
    assert "On the first 4 positions of the text, a has" in plain["path_disagreement"] and "kl_terms" not in plain
    assert "On the packaged text:" in shown(usual) and "llama.cpp" not in shown(usual)


def test_the_table_of_the_text_by_hand() -> None:
    record = record_on(None)
    base, variant = record.measurements
    run = analysis.compare(replace(record, measurements=(base, replace(variant, scores=variant.scores[:2]))))
    after = shown(run).partition("On the packaged text:")[2].splitlines()
    (row,) = [line for line in after if line.startswith("a ")]
    # Tokens of probability 0.25 against 0.5: perplexity 4 against 2; windows of mean 0.01 and 0.03 give 0.02 between.
    wanted = "a 8 0.02 (0.01–0.03) 100.0 % 4 against 2 2.000 (2.000–2.000) -25 ± 0 %, rms 25 %"
    assert row.split() == wanted.split()

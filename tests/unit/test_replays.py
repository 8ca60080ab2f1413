"""Which request an answer is raced by, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import analysis_records as make
from analysis_records import BASELINE as BASE
from analysis_records import result

from optimizers.analysis import compare
from optimizers.analysis.replays import DIGITS, MOST_TOKENS, replays
from optimizers.results import Replay
from optimizers.schema import Output


def output(prompt: int, tokens: int, text: str = "a text") -> Output:
    return Output(prompt, text, tuple(range(tokens)), False, tokens, (len(text),) * tokens)


def test_the_middle_request_of_each_prompt_is_raced_up_to_the_end_of_its_answer() -> None:
    # Prompt 0 in rounds 0, 3, 6 at 0.3, 0.1 and 0.2 s a token after 0.5 s: the middle is 0.2. Prompt 1 in rounds 1
    # and 4 at 0.4 and 0.6: of two the lower. Five tokens come, four belong to the answer; prompt 2 has no answer.
    steps = {0: 0.3, 3: 0.1, 6: 0.2, 1: 0.4, 4: 0.6, 2: 0.1}
    samples = [make.sample("a", number, step) for number, step in steps.items()]
    found = replays(samples, [output(0, 4), output(1, 5)])
    assert found == (Replay(0, (0.5, 0.7, 0.9, 1.1)), Replay(1, (0.5, 0.9, 1.3, 1.7, 2.1)))


def test_an_answer_without_tokens_or_without_a_request_is_not_raced() -> None:
    samples = [make.sample("a", 0, 0.1)]
    assert replays(samples, [output(0, 0), output(1, 3)]) == ()
    assert replays(samples, [output(0, 6)]) == ()  # the request made five


def test_times_are_kept_to_a_tenth_of_a_millisecond_and_very_long_answers_in_part() -> None:
    times = tuple(number / 3 for number in range(1, MOST_TOKENS + 10))
    base = make.sample("a", 0, 0.1)
    long = replace(base, timing=replace(base.timing, token_times_s=times))
    (found,) = replays([long], [output(0, len(times))])
    assert len(found.token_times_s) == MOST_TOKENS
    assert found.token_times_s[0] == round(1 / 3, DIGITS) == 0.3333


def test_only_what_was_measured_and_counts_is_raced() -> None:
    fast = make.measurement("a", [0.25] * 6)
    lost = make.measurement("lost", [0.125] * 6, status="not_applied")
    late = replace(make.sample("a", 0, 9.0), superseded=True)
    run = compare(make.record(make.measurement(BASE, [0.5] * 6), replace(fast, samples=(late, *fast.samples)), lost))
    assert [replay.prompt for replay in result(run, "a").replays] == [0, 1, 2]
    assert result(run, "a").replays[0].token_times_s == (0.5, 0.75, 1.0, 1.25)
    assert result(run, "lost").replays == ()

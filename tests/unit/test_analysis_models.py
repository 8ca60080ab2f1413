"""Another model in the finished run: perplexity per byte by hand, what is not claimed, caveats, advice, old runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import STEPS, result

from optimizers.analysis import compare
from optimizers.analysis.quality_words import quality_word
from optimizers.analysis.recommendation import word_of
from optimizers.quality import PerByte
from optimizers.results import Run
from optimizers.schema import Record, from_json, to_json
from optimizers.scores import StretchScore

KEY = "fp32+sdpa+checkpoint=small"
SMALL = replace(make.CHECKPOINT, id="small", folder="small", parameters=500, hidden_size=32)
LN2 = math.log(2)
# 100 + 300 bytes: the baseline spends 1 bit a byte; the variant 1.5 and 1.25, so 150 + 375 = 525 bits on 400 bytes.
BASE_STRETCHES = (
    StretchScore("bytes:0", "one_pass", -100 * LN2, 100, 25),
    StretchScore("bytes:1", "one_pass", -300 * LN2, 300, 75),
    StretchScore("bytes_timed", "timed", -100 * LN2, 100, 25),
)
STRETCHES = (
    StretchScore("bytes:0", "one_pass", -150 * LN2, 100, 50),
    StretchScore("bytes:1", "one_pass", -375 * LN2, 300, 150),
    StretchScore("bytes_timed", "timed", -150 * LN2, 100, 50),
)


def record(*, same_tokenizer: bool = False, step_s: float = 0.25, **changes: object) -> Record:
    """The baseline against another model that is twice as fast unless told otherwise."""
    fields = {"stretches": STRETCHES, "memory": make.memory(256 * make.MIB)} | changes
    made = make.record(
        make.measurement(BASE, STEPS, stretches=BASE_STRETCHES),
        make.measurement(KEY, [step_s] * 6, **fields),
        replica=STEPS,
    )
    base, other = made.plan.variants
    other = replace(other, checkpoint=SMALL, same_tokenizer=same_tokenizer)
    return replace(made, plan=replace(made.plan, variants=(base, other)))


def per_byte(run: Run) -> PerByte:
    quality = result(run, KEY).quality
    assert quality and quality.per_byte
    return quality.per_byte


def test_perplexity_per_byte_by_hand() -> None:
    found = per_byte(compare(record()))
    assert found.bytes == 400 and found.stretches == 2 and found.one_pass
    assert found.bits_per_byte == pytest.approx(525 / 400)
    assert found.baseline_bits_per_byte == pytest.approx(1.0)
    assert found.perplexity == pytest.approx(2 ** (525 / 400))
    assert found.baseline_perplexity == pytest.approx(2.0)
    assert found.ratio.value == pytest.approx(2 ** (125 / 400))
    # Of two groups a bootstrap draws the one alone, the other alone, or both: 50 bits on 100 bytes, 75 on 300.
    assert (found.ratio.low, found.ratio.high) == (pytest.approx(2**0.25), pytest.approx(2**0.5))
    assert (found.tokens, found.baseline_tokens) == (200, 100)


def test_only_what_both_scored_counts() -> None:
    few = per_byte(compare(record(stretches=STRETCHES[1:2])))
    assert (few.bytes, few.left_out, few.ratio.low) == (300, 1, None)
    assert few.ratio.value == pytest.approx(2 ** (75 / 300))
    odd = (replace(STRETCHES[0], bytes=99), replace(STRETCHES[1], logprob=math.nan))
    assert result(compare(record(stretches=odd, outputs=())), KEY).quality is None
    texts = [caveat.text for caveat in compare(record(stretches=odd)).caveats if caveat.id == "another_model"]
    assert len(texts) == 1 and "could not be measured" in texts[0]


@pytest.mark.parametrize(("timed_bits", "one_pass"), [(150.0, True), (151.4, True), (151.5, False), (200.0, False)])
def test_where_the_two_paths_disagree_the_timed_one_is_shown(timed_bits: float, one_pass: bool) -> None:
    """0.01 nats a byte are 1.4427 bits on 100 bytes."""
    run = compare(record(stretches=(*STRETCHES[:2], replace(STRETCHES[2], logprob=-timed_bits * LN2))))
    found = per_byte(run)
    assert found.one_pass is one_pass
    assert found.bytes == (400 if one_pass else 100)
    expected = 2 ** (125 / 400) if one_pass else 2 ** ((timed_bits - 100) / 100)
    assert found.ratio.value == pytest.approx(expected)
    assert ("per_byte_paths" in make.caveat_ids(run)) is not one_pass


def test_a_model_of_other_tokens_claims_nothing_that_is_counted_in_tokens() -> None:
    lying = (make.passage("answer:0", [0.0] * 20), make.passage("text:0", [0.0] * 20))
    run = compare(record(scores=lying))
    item = result(run, KEY)
    assert item.quality
    quality = item.quality
    assert (quality.kl_divergence, quality.kl_interval, quality.same_top, quality.text) == (None,) * 4
    assert (quality.exact_match_rate, quality.length_ratio, quality.first_divergence) == (None, None, ())
    assert word_of(item) is None and quality_word(None, None) is None
    assert item.model and (item.model.id, item.model.parameters) == ("small", 500)
    kept = result(compare(record(scores=lying, same_tokenizer=True)), KEY).quality
    assert kept and kept.kl_divergence and kept.text and kept.per_byte and kept.length_ratio == 1.0


def test_it_is_never_recommended_but_weighed() -> None:
    advice = compare(record()).recommendation
    assert advice and advice.key == BASE
    assert advice.reason.startswith("No variant of the same model was faster with acceptable quality")
    told = "2.00x the speed (faster), 0.50x the bytes of weights, 1.24x the perplexity per byte."
    assert told in advice.condition
    few = compare(record(samples=make.samples(KEY, [0.25] * 2)))
    assert few.recommendation is None  # no verdict was reached


def test_caveats_say_how_it_is_judged_and_how_long_its_tokens_are() -> None:
    said = {caveat.id: caveat for caveat in compare(record()).caveats}
    assert (
        "perplexity per byte 2.484 against 2.000, on the same 400 bytes of text, not by KL"
        in said["another_model"].text
    )
    assert "holds 2.00 bytes of the text on average, one of the baseline's 4.00" in said["other_tokens"].text
    assert "it writes 0.50x the text" in said["other_tokens"].text
    assert said["another_model"].variant == KEY
    alike = compare(record(same_tokenizer=True, stretches=tuple(replace(s, tokens=s.bytes // 4) for s in STRETCHES)))
    said = {caveat.id: caveat for caveat in alike.caveats}
    assert "its KL divergence says how unlike the baseline it is" in said["another_model"].text
    assert "other_tokens" not in said
    folded = tuple(replace(score, spelled=False) for score in STRETCHES)
    assert "not_spelled" in make.caveat_ids(compare(record(stretches=folded)))


def test_facts_of_its_own_checkpoint_are_used() -> None:
    made = record()
    base, other = made.plan.variants
    promise = make.promised("decode", 3.0, None)
    grid = replace(SMALL, low_bit_grid="Its weights lie on a grid.")
    made = replace(made, plan=replace(made.plan, variants=(base, replace(other, checkpoint=grid, promises=(promise,)))))
    run = compare(made)
    assert "32 wide" in (result(run, KEY).promises[0].why or "")
    assert [c.variant for c in run.caveats if c.id == "low_bit_grid"] == [KEY]


def test_a_run_from_before_still_reads_and_a_new_one_comes_back_whole() -> None:
    run = compare(record())
    assert from_json(Run, to_json(run)) == run
    old = json.loads(to_json(run))
    for variant in old["variants"]:
        del variant["model"]
        if variant["quality"]:
            del variant["quality"]["per_byte"]
    for read in from_json(Run, json.dumps(old)).variants:
        assert read.model is None and (read.quality is None or read.quality.per_byte is None)

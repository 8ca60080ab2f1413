"""When speed has paid for a start, worked out by hand: the formula, its words, and what cannot be said."""

from __future__ import annotations

from dataclasses import replace

import analysis_records as make
import pytest
from analysis_records import BASELINE as BASE
from analysis_records import result, two

from optimizers.analysis import compare
from optimizers.results import Payback
from optimizers.schema import CompileCensus, Cost, Record

# The baseline's start: 1 + 0.5 + 0.25 s. An answer has five tokens, the first at 0.5 s; at half a second a token the
# other four take 2 s, which is 0.5 s for each of the five.
DEARER = Cost(2.0, 3.0, 1.0)


def payback(record: Record) -> Payback | None:
    return result(compare(record), "a").payback


def compiled(from_cache: bool | None) -> CompileCensus:
    return CompileCensus(1, 0, 0, from_cache=from_cache)


def test_the_tokens_until_a_start_is_paid_for() -> None:
    # Starts 6 - 1.75 = 4.25 s dearer. A quarter of a second a token: (0.5 + 1) / 5 = 0.3 s, 0.2 s saved on each token.
    # 4.25 / 0.2 = 21.25.
    pays = payback(two([0.25] * 6, cost=DEARER))
    assert pays == Payback(4.25, pytest.approx(0.2), "after tokens", 22)
    # Its first token at 1 s in place of 0.5: (1 + 1) / 5 = 0.4 s a token, 0.1 s saved. 4.25 / 0.1 = 42.5.
    late = tuple(make.sample("a", n, 0.25, timing=make.timing(0.25, ttft_s=1.0)) for n in range(6))
    assert payback(two([], samples=late, cost=DEARER)) == Payback(4.25, pytest.approx(0.1), "after tokens", 43)


def test_what_never_pays_and_what_pays_at_once() -> None:
    slower, noise = payback(two([0.6] * 6, cost=DEARER)), payback(two([0.499] * 6, cost=DEARER))
    assert slower is not None
    assert (slower.word, slower.tokens, slower.saved_s_per_token) == ("never", None, pytest.approx(-0.08))
    assert noise is not None
    assert (noise.word, noise.tokens) == ("never", None)  # 0.2 % faster
    cheaper = payback(two([0.25] * 6, cost=Cost(0.5, 0.25, 0.25)))
    assert cheaper == Payback(-0.75, pytest.approx(0.2), "at once", 0)
    # Tokens twice as fast after a first one at 2.5 s: (2.5 + 1) / 5 = 0.7 s a token, dearer than the baseline's 0.5.
    late = tuple(make.sample("a", n, 0.25, timing=make.timing(0.25, ttft_s=2.5)) for n in range(6))
    lost = payback(two([], samples=late, cost=DEARER))
    assert lost is not None
    assert (lost.word, lost.saved_s_per_token) == ("never", pytest.approx(-0.2))
    assert "first one comes too late" in lost.note


def test_compiled_afresh_and_from_the_cache_are_told_apart() -> None:
    notes = {}
    for from_cache in (True, False, None):
        pays = payback(two([0.25] * 6, cost=DEARER, census=make.census(compile=compiled(from_cache))))
        assert pays is not None
        notes[from_cache] = pays.note
    assert "found in the cache" in notes[True]
    assert "Compiled afresh" in notes[False]
    assert notes[None] == ""


def test_what_cannot_be_said() -> None:
    few = payback(two([0.25] * 4, cost=DEARER))
    assert few is not None
    assert (few.word, few.tokens) == ("not known", None)
    record = two([0.25] * 6, cost=DEARER)
    assert result(compare(record), BASE).payback is None
    base, variant = record.measurements
    assert payback(replace(record, measurements=(replace(base, cost=None), variant))) is None
    assert payback(replace(record, measurements=(base, replace(variant, status="failed")))) is None
    once = make.timing(0.5, tokens=1)
    single = {key: tuple(make.sample(key, n, 0.5, timing=once) for n in range(6)) for key in (BASE, "a")}
    assert payback(make.record(*(make.measurement(key, [], samples=taken) for key, taken in single.items()))) is None

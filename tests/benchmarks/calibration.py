"""Whether the verdicts can be trusted: the same variant against itself, and against itself made faster by arithmetic.

    python tests/benchmarks/calibration.py [--model smollm2-135m] [--processes 6] [--rounds 40] [--runs 20]

Three parts. It records one comparison in which every variant is the baseline again, each in a process of its own, and
says how far apart their processes are (the standard deviation of the processes' mean log-speed, that of the noise of
their rounds taken off, and the 95 % upper bound of it by the chi-square of the processes' variance). From the recorded
samples it simulates comparisons: a baseline, its second process and a candidate drawn from the processes, rounds drawn
with replacement and together, so that what disturbed a whole round disturbs it here too; how many say something other
than "within noise", and how many find the candidate when its speed is multiplied by 1.1: with a number of rounds, and
with rounds that end when the verdict is settled. Then it makes short real comparisons of the baseline with itself. Run
it with nothing else on the machine. It is no test: nothing fails when the machine is noisy.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from optimizers import api
from optimizers.analysis import compare, effort, requests, verdicts
from optimizers.manager import Manager
from optimizers.schema import Plan, Record, Sample
from optimizers.store import Store

SIMULATED = 2000
LENGTHS = ((5, False), (api.DEFAULT_ROUNDS, False), (12, False), (12, True), (24, False), (24, True))
FASTER = 1.1


def of_itself(model: str, processes: int, rounds: int, tokens: int) -> Plan:
    """A plan in which each variant is the baseline."""
    plan = api.plan(api.choose(model, rounds=rounds, max_new_tokens=tokens))
    base = plan.variants[0]
    again = tuple(replace(base, key=f"{base.key} {number}") for number in range(1, processes))
    return replace(plan, variants=(base, *again))


def run(plan: Plan) -> Record:
    """The record of one comparison."""
    store = Store(Path(tempfile.mkdtemp()))
    manager = Manager(store)
    live = manager.wait(run_id := manager.start(plan))
    manager.close()
    if live.status != "done":
        raise SystemExit(f"The comparison ended as {live.status}: {live.reason}")
    return store.record(run_id)


def speeds(record: Record) -> list[dict[int, Sample]]:
    """The counted samples of each process by round; the baseline's second process is one of them."""
    found = [requests.counted(item.samples) for item in record.measurements]
    return [*found, requests.counted(record.replica_samples)]


def offset(processes: Sequence[dict[int, Sample]]) -> tuple[float, float, float]:
    """Standard deviation of log decode speed between processes, its 95 % upper bound, and that of one round within a
    process about the round's mean over all (a one-way layout with the rounds taken off)."""
    common = sorted(set.intersection(*(set(rounds) for rounds in processes)))
    logs = [[_log_speed(rounds[number]) for number in common] for rounds in processes]
    level = [statistics.fmean(column) for column in zip(*logs, strict=True)]
    rest = [[value - mean for value, mean in zip(row, level, strict=True)] for row in logs]
    means = [statistics.fmean(row) for row in rest]
    within = statistics.fmean(statistics.variance(row) for row in rest)
    spread, noise, freedom = statistics.variance(means), within / len(common), len(means) - 1
    at_most = freedom * spread / float(stats.chi2.ppf(0.05, freedom))
    return math.sqrt(max(0.0, spread - noise)), math.sqrt(max(0.0, at_most - noise)), math.sqrt(within)


def _log_speed(sample: Sample) -> float:
    return math.log(requests.decode_tokens_per_s(sample.timing) or 1.0)


def simulate(
    processes: Sequence[dict[int, Sample]], rounds: int, factor: float, until_settled: bool = False, seed: int = 0
) -> tuple[Counter[str], float]:
    """How often each word is said of a candidate whose decode speed is multiplied by `factor`, and the mean number of
    rounds: so many, or at most so many when they end once the verdict is settled."""
    chance = random.Random(seed)
    common = sorted(set.intersection(*(set(found) for found in processes)))
    said: Counter[str] = Counter()
    played = 0
    for _ in range(SIMULATED):
        drawn = [chance.choice(common) for _ in range(rounds)]
        base, second, candidate = (
            {place: found[number] for place, number in enumerate(drawn)} for found in chance.sample(processes, 3)
        )
        faster = {place: _sped_up(sample, factor) for place, sample in candidate.items()}
        looks = range(effort.LEAST_PAIRS, rounds) if until_settled else ()
        so_many = next((n for n in looks if effort.settled(_first(faster, n), base, _first(second, n))), rounds)
        floor = verdicts.noise_floor(_first(second, so_many), base, None)
        ratio = verdicts.versus_baseline(
            _first(faster, so_many), base, None, None, floor, _first(second, so_many)
        ).decode
        said[ratio.verdict if ratio else "none"] += 1
        played += so_many
    return said, played / SIMULATED


def _first(rounds: dict[int, Sample], count: int) -> dict[int, Sample]:
    return {number: rounds[number] for number in range(count)}


def _sped_up(sample: Sample, factor: float) -> Sample:
    timing = sample.timing
    first = timing.token_times_s[0]
    times = tuple(first + (time - first) / factor for time in timing.token_times_s)
    return replace(sample, timing=replace(timing, token_times_s=times))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--model", default="smollm2-135m")
    words.add_argument("--processes", type=int, default=6)
    words.add_argument("--rounds", type=int, default=40)
    words.add_argument("--runs", type=int, default=20)
    words.add_argument("--tokens", type=int, default=48)
    options = words.parse_args()
    recorded = speeds(run(of_itself(options.model, options.processes, options.rounds, options.tokens)))
    between, at_most, within = offset(recorded)
    print(
        f"between processes {between:.2%} (at most {at_most:.2%}), within one from round to round {within:.2%} "
        "(standard deviations of speed)",
        flush=True,
    )
    for rounds, until_settled in LENGTHS:
        (same, _), (faster, mean) = (simulate(recorded, rounds, factor, until_settled) for factor in (1.0, FASTER))
        wrong = 1 - same["within noise"] / SIMULATED
        how = f"{rounds} rounds" + (
            f" at most, until settled (the gain's: {mean:.1f} in the mean)" if until_settled else ""
        )
        print(f"{how}: false verdicts {wrong:.1%}, a gain of 10 % found {faster['faster'] / SIMULATED:.1%}", flush=True)
    said: Counter[str] = Counter()
    for number in range(options.runs):
        plan = of_itself(options.model, 2, api.DEFAULT_ROUNDS, options.tokens)
        workload = replace(plan.choice.workload, seed=number)
        result = compare(run(replace(plan, choice=replace(plan.choice, workload=workload))))
        versus = result.variants[1].versus_baseline
        said[versus.decode.verdict if versus and versus.decode else "none"] += 1
    print(f"{options.runs} real comparisons of the baseline with itself: {dict(said)}")


if __name__ == "__main__":
    main()

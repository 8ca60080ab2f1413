"""One request in a turn: what is asked, the sample that it gives, and what the reader sees of it.

Covers the ordinary rounds (`rounds.py`) and those with a core busy (`hosted.py`) alike. Who is asked, and when, is
theirs.
"""

from __future__ import annotations

from dataclasses import replace

from optimizers import protocol
from optimizers.manager.board import Board
from optimizers.manager.member import Member
from optimizers.manager.turns import ENOUGH_SHARE, processor_share
from optimizers.schema import Load, Sample


def ask(board: Board, member: Member, number: int, attempt: int = 0, attempts: int = 1, load: Load = "none") -> Sample:
    """Ask for the answer of round `number` and put its sample into the log. With nothing else at work by intention
    (`load`), one that lost its threads to others is disturbed, and superseded where another of `attempts` comes."""
    work = board.plan.choice.workload
    prompt = number % len(work.prompts)
    if attempt == 0 and not member.replica:
        board.live.turn(member.key, prompt)
    answered = member.run(work.prompts[prompt], work.max_new_tokens)
    share = processor_share(answered.timing, board.plan.machine.usable_cores)
    disturbed = load == "none" and share < ENOUGH_SHARE
    sample = Sample(
        variant=member.key,
        replica=member.replica,
        round=number,
        prompt=prompt,
        attempt=attempt,
        timing=answered.timing,
        processor_share=share,
        disturbed=disturbed,
        superseded=disturbed and attempt + 1 < attempts,
        load=load,
    )
    board.say(member.key, protocol.SampleTaken(sample, replace(answered.output, prompt=prompt)), member.replica)
    if not (member.replica or sample.superseded):
        board.live.rest(member.key, answered.output.text)
    return sample

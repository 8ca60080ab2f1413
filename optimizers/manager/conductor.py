"""The order of one comparison, from the first worker's start to the last one's end.

Resident: the baseline loads, streams its answers and scores the text, which writes the reference; the others load and
score one after another, since what a start costs is measured too; then all take turns. Not resident: one after
another, the baseline first and last. Nothing that is timed runs while anything else of ours computes. Covers order and
failures; one conversation is in `member.py`, turns are in `rounds.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from optimizers import protocol
from optimizers.busy import LOADED_ROUNDS
from optimizers.errors import Cancelled, LeversError, WorkerError
from optimizers.limits import LimitsMeasured
from optimizers.manager.board import Board
from optimizers.manager.hosted import HostedRounds
from optimizers.manager.machine_limits import expected_s, machine_limits
from optimizers.manager.member import Member
from optimizers.manager.rounds import Rounds
from optimizers.manager.turns import Pace
from optimizers.planning import known
from optimizers.schema import FINAL_STATUSES, Checkpoint, Plan, Promise, RunStatus
from optimizers.scores import OwnText
from optimizers.settings import OWN_TEXT_POSITIONS, TEXT_POSITIONS, TIMED_TEXT_POSITIONS
from optimizers.tasks import text_generation

FIRST_TOKENS = 2
TEMPLATE_TOKENS = 256
WIDEST_VOCABULARY = 10_000_000
ROW_ITEM_BYTES = 4
MISTAKE = (
    "A mistake in the program ended the comparison. What was measured is kept: start it again, if need be without the "
    "variant that was at work."
)
UNCOMPUTED = (
    "A mistake in the program kept the comparison from being computed. The raw samples are kept: start it again with "
    "fewer variants."
)
PROFILED_ROUNDS = 1
ROUNDS_OF_A_LOADED_ONE = 2  # in time, where a busy core takes half of a variant's threads' time

_logger = logging.getLogger(__name__)


class Conductor:
    """Conducts one run; `conduct` returns when it is over and everything is on disk."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._plan = board.plan
        self._work = board.plan.choice.workload
        first, *others = board.plan.variants
        self._baseline = Member(board, first)
        self._others = [Member(board, variant) for variant in others]
        self._second = Member(board, first, replica=True)
        everyone = (self._baseline, *self._others, self._second)
        self._first_tokens = min(FIRST_TOKENS, self._work.max_new_tokens)  # no request is longer than what fits
        kept = PROFILED_ROUNDS + (LOADED_ROUNDS * ROUNDS_OF_A_LOADED_ONE if self._work.as_hosted else 0)
        self._pace = Pace(board.plan, [member.name for member in everyone], kept, expected_s(board.plan))
        self._rounds = Rounds(board, self._pace, self._guarded)
        self._hosted = HostedRounds(board, self._pace, self._guarded)
        self._weighed = saved_files(board.plan)
        self._passages: tuple[protocol.Passage, ...] = ()
        self._stretches = _stretches(board.plan)
        self._reference = protocol.Reference(str(board.folder.reference), 1, 0, 0)

    def conduct(self) -> None:
        """Do it all. Never raises: whatever happens becomes the end of the run."""
        status: RunStatus = "done"
        reason: str | None = None
        try:
            self._board.live.begin()
            self._measure()
        except Cancelled:
            status = "cancelled"
        except LeversError as error:
            status, reason = "failed", str(error)
        except OSError as error:
            status, reason = "failed", f"The run could not be kept on disk: {error.strerror}. Free some space."
        except Exception:
            _logger.exception("the comparison %s ended by a mistake in the program", self._board.folder.id)
            status, reason = "failed", MISTAKE
        self._end(status, reason)

    def _measure(self) -> None:
        """Everything between the start and the end. Raises WorkerError when the baseline fails, Cancelled."""
        self._board.must_go_on()
        self._board.live.stage("loading the baseline")
        self._guarded(self._baseline, self._answer_first)
        self._pace.answered_first()
        self._show_progress()
        self._board.live.stage("the baseline scores the text")
        self._prepared(self._baseline, self._write_text)
        if self._plan.resident:
            self._all_together()
        else:
            self._one_by_one()
        self._measure_machine()
        self._board.must_go_on()

    def _answer_first(self, member: Member) -> bool:
        """Load and stream the baseline's answers, alone: they are the reference, and warm it up."""
        member.start()
        self._reference = self._room_for(member.load(self._longest(member)).vocab_size)
        member.warm_up(self._work.prompts[0], self._first_tokens)
        self._board.live.stage("the baseline answers first")
        self._passages = tuple(self._answer(number) for number in range(len(self._work.prompts)))
        return True

    def _answer(self, number: int) -> protocol.Passage:
        """The baseline's answer to one prompt, its probabilities written down, as a passage for the others."""
        live, member, tokens = self._board.live, self._baseline, self._work.max_new_tokens
        row = number * tokens
        live.turn(member.key, number)
        answered = member.run(self._work.prompts[number], tokens, replace(self._reference, row=row))
        live.rest(member.key, answered.output.text)
        return protocol.Passage(f"answer:{number}", "timed", answered.prompt_ids, answered.scored_ids, row)

    def _write_text(self, member: Member) -> bool:
        """The baseline scores the text written by people, which completes the reference."""
        taken = member.census()
        if taken.obstacle is not None:
            raise WorkerError(taken.obstacle.reason, taken.obstacle.remedy)
        text = self._windows(member.tokenize(_text(self._plan)))
        if text:
            member.score(text, self._reference, write=True)
        if self._stretches:
            member.score_text(self._stretches)
        member.memory(member.key in self._weighed)
        self._passages = (*self._passages, *text)
        member.status("ready")
        return True

    def _windows(self, ids: Sequence[int]) -> tuple[protocol.Passage, ...]:
        """The text as passages to score. One of the person's own has longer windows and more of them, as far as the
        reference holds their rows, and what is scored of it is said."""
        first, context = len(self._work.prompts) * self._work.max_new_tokens, self._shortest_context()
        own = self._work.text
        if own is None:
            return text_generation.windows(ids, context, TEXT_POSITIONS, first)
        room = self._reference.rows_limit - first - TIMED_TEXT_POSITIONS
        positions = min(OWN_TEXT_POSITIONS, max(room, TEXT_POSITIONS))
        size = text_generation.own_window(context, self._reference.vocab_size)
        found = text_generation.windows(ids, context, positions, first, size)
        self._board.say(None, protocol.Noted(_of_own_text(own, found, self._stretches)))
        return found

    def _load(self, member: Member) -> bool:
        """Start and load one of the others."""
        member.start()
        by_bytes = member.replica or member.variant.checkpoint is not None
        member.load(self._longest(member) if by_bytes else self._longest_seen())
        return True

    def _get_ready(self, member: Member) -> bool:
        """Warm a loaded variant up, score with it, and see that its techniques were applied; False when it is out.
        Scoring is the warm-up at full size; one that has no answers to score (A', a model of other tokens) answers
        once more instead."""
        member.warm_up(self._work.prompts[0], self._first_tokens)
        comparable = not member.replica and self._comparable(member)
        if comparable:
            member.score(self._passages, self._reference)
        else:
            member.run(self._work.prompts[0], self._work.max_new_tokens)
        if member.replica:
            return True
        if member.variant.checkpoint is not None and self._stretches:
            member.score_text(self._stretches)
        taken = member.census()
        if taken.obstacle is None:
            member.memory(member.key in self._weighed)
            member.status("ready")
            return True
        member.status("not_applied", taken.obstacle.reason, taken.obstacle.remedy)
        member.close()
        return False

    def _prepared(self, member: Member, action: Callable[[Member], bool]) -> bool:
        """The last part of one member's preparation, counted."""
        fit = member.alive and self._guarded(member, action)
        self._pace.prepared(member.name, fit)
        self._show_progress()
        return fit

    def _all_together(self) -> None:
        """All stay loaded and take turns."""
        others = (*self._others, self._second)
        for place, member in enumerate(others, 1):
            self._board.must_go_on()
            self._board.live.stage(f"loading and scoring: variant {place} of {len(others)}")
            self._guarded(member, self._load)
            self._prepared(member, self._get_ready)
        members = [member for member in (self._baseline, *others) if member.alive]
        self._rounds.play(members)
        self._play_hosted(members)
        self._board.live.stage("seeing where the time goes")
        for member in members:
            self._finish(member)

    def _one_by_one(self) -> None:
        """Each is loaded, measured and ended before the next; the baseline comes first and last."""
        everyone = (self._baseline, *self._others, self._second)
        for place, member in enumerate(everyone, 1):
            self._board.must_go_on()
            self._board.live.stage(f"variant {place} of {len(everyone)}")
            if member is not self._baseline:
                self._guarded(member, self._load)
            if member is self._baseline or self._prepared(member, self._get_ready):
                self._rounds.play([member], place / len(everyone))
                self._play_hosted([member])
                self._finish(member)

    def _play_hosted(self, members: Sequence[Member]) -> None:
        """Those of these members who lead answer once more with one core busy, where that is asked for."""
        if not self._work.as_hosted:
            return
        for member in members:
            self._pace.keeps(member.name, PROFILED_ROUNDS)
        if self._plan.resident:
            self._hosted.play(self._leading(members), self._pace.ending_s([member.name for member in members]))
        else:
            self._hosted.play(members, self._pace.left_s())

    def _leading(self, members: Sequence[Member]) -> list[Member]:
        """The baseline, its second process and those that write fastest so far, of these."""
        alive = [member for member in members if member.alive]
        keys = (self._baseline.key, *self._board.leading([member.key for member in alive]))
        return [member for member in alive if member.key in keys]

    def _measure_machine(self) -> None:
        """What this machine can do at most, for the figures to be held against. All turns are over, and no worker holds
        memory any more."""
        self._board.must_go_on()
        self._board.live.stage("measuring what this machine can do at most")
        found = machine_limits(self._plan, self._board.must_go_on)
        if found is not None:
            self._board.say(None, LimitsMeasured(found))

    def _show_progress(self) -> None:
        self._board.live.progress(self._pace.share_done(), self._pace.left_s())

    def _finish(self, member: Member) -> None:
        """The last words of a measured variant: what memory it came to, and where its time goes. Then it ends."""
        if member.alive and not member.replica:
            self._guarded(member, self._last_words)
        member.close()
        self._pace.keeps(member.name, 0)
        self._show_progress()

    def _last_words(self, member: Member) -> bool:
        member.memory()
        if any(technique.slot == "compile" for technique in known(member.variant.techniques)):
            member.census()  # once more, for what was compiled during the rounds
        try:
            member.profile(self._work.prompts[0], self._work.max_new_tokens)
        except WorkerError as error:  # everything else is measured, and stays so
            member.close(0.0)
            text = f"Where its time goes is not known, because it failed while that was looked at. {error.reason}"
            self._board.say(member.key, protocol.Noted(text))
        member.status("measured")
        return True

    def _guarded(self, member: Member, action: Callable[[Member], bool]) -> bool:
        """Run one member's part. Its failure becomes its row; only the baseline's ends the run (WorkerError)."""
        try:
            return action(member)
        except WorkerError as error:
            member.close(0.0)
            self._pace.out(member.name)
            if member.replica:
                text = f"The baseline's second process failed, so the noise floor is not known. {error}"
                self._board.say(None, protocol.Noted(text))
                return False
            member.status("failed", error.reason, error.remedy)
            if member is not self._baseline:
                return False
            raise WorkerError(f"The baseline failed. {error.reason}", error.remedy) from error

    def _end(self, status: RunStatus, reason: str | None) -> None:
        """End the workers, settle what is open, and put the finished comparison on disk and into the picture."""
        board, run = self._board, None
        try:
            board.stop()
            self._settle(status)
            board.say(None, protocol.Ended(status, reason))
            run = board.finish()
        except OSError as error:
            status, reason = "failed", f"The run could not be kept on disk: {error.strerror}. Free some space."
        except Exception:
            _logger.exception("the comparison %s could not be computed", board.folder.id)
            status, reason = "failed", UNCOMPUTED
        finally:
            board.folder.close()
            board.live.end(status, run, reason)

    def _settle(self, status: RunStatus) -> None:
        """Say why those that did not come to their end did not."""
        lanes = self._board.live.snapshot().lanes
        reason, remedy = "The comparison was stopped before this variant was measured.", "Run the comparison again."
        if status == "failed":
            reason = "The comparison failed before this variant was measured."
            if lanes[0].status == "failed":
                reason = "The baseline failed, so there is nothing to compare with."
                remedy = "Its row says why; then run the comparison again, or pick another baseline."
        for lane in lanes:
            if lane.status not in FINAL_STATUSES:
                event = protocol.StatusChanged("cancelled", reason, remedy)
                self._board.say(lane.key, event)

    def _comparable(self, member: Member) -> bool:
        """Whether its probabilities are of the baseline's tokens. One checkpoint always has the same; where a technique
        made them others after all, the worker says so."""
        if member.variant.checkpoint is None:
            return True
        return member.variant.same_tokenizer and member.vocab_size == self._reference.vocab_size

    def _shortest_context(self) -> int:
        """The shortest context of those who score the baseline's tokens; 0 where none is known."""
        mine = [variant.checkpoint for variant in self._plan.variants if variant.same_tokenizer]
        return _shortest([self._plan.checkpoint, *(checkpoint for checkpoint in mine if checkpoint)])

    def _longest(self, member: Member) -> int:
        """Prompt plus answer, or lead plus stretch, of the longest request of this member, in tokens; a byte is one
        token at the most."""
        longest = max(len(prompt.encode()) for prompt in self._work.prompts) + TEMPLATE_TOKENS
        asked = longest + self._work.max_new_tokens
        stretched = [len((item.lead + item.text).encode()) + text_generation.HEAD_TOKENS for item in self._stretches]
        seen = [self._longest_seen()] if member.variant.checkpoint is not None else []  # A' is as the baseline is
        most = max([asked, *stretched, *seen])
        return min(member.checkpoint.context_length or most, most)

    def _longest_seen(self) -> int:
        """The same in the tokens that the baseline counted, of answers and of what is scored step by step."""
        asked = self._work.max_new_tokens
        timed = [passage for passage in self._passages if passage.path == "timed"]
        return max(len(passage.context_ids) + max(asked, len(passage.target_ids)) for passage in timed)

    def _room_for(self, vocab_size: int) -> protocol.Reference:
        """Where the reference goes, and how many rows of it are kept."""
        if not 1 <= vocab_size <= WIDEST_VOCABULARY:
            raise WorkerError("Its worker named a vocabulary size that cannot be.", "Choose another model.")
        limit = protocol.REFERENCE_LIMIT_BYTES // (ROW_ITEM_BYTES * vocab_size)
        return replace(self._reference, vocab_size=vocab_size, rows_limit=limit)


def _text(plan: Plan) -> str:
    """What quality is measured on beside the answers: the person's own text, as much as the plan has, or ours."""
    own = plan.choice.workload.text
    return text_generation.human_text() if own is None else own.head


def _of_own_text(own: OwnText, scored: Sequence[protocol.Passage], stretches: Sequence[protocol.Stretch]) -> str:
    """How much of the person's own text is scored, as a sentence."""
    lengths = [len(passage.target_ids) for passage in scored if passage.path == "one_pass"]
    said = f"{own.called[0].upper()}{own.called[1:]} has {own.bytes:,} {'byte' if own.bytes == 1 else 'bytes'}"
    if not lengths:
        return f"{said}, in too few tokens to be scored by them."
    windows = f"{len(lengths)} windows of up to {max(lengths):,}" if len(lengths) > 1 else "one window"
    by_bytes = sum(len(stretch.text.encode()) for stretch in stretches if stretch.path == "one_pass")
    more = f"; {by_bytes:,} bytes of it are scored in the tokens of other models" if by_bytes else ""
    return f"{said}; quality is measured on {sum(lengths):,} of its tokens, from its beginning, in {windows}{more}."


def _stretches(plan: Plan) -> tuple[protocol.Stretch, ...]:
    """The text by its bytes, where another checkpoint is compared; none where every variant is of one model."""
    others = [variant.checkpoint for variant in plan.variants if variant.checkpoint is not None]
    context = _shortest([plan.checkpoint, *others])
    return text_generation.stretches(_text(plan), context) if others else ()


def _shortest(checkpoints: Sequence[Checkpoint]) -> int:
    """The shortest context that is known, 0 where none is."""
    return min((checkpoint.context_length for checkpoint in checkpoints if checkpoint.context_length), default=0)


def saved_files(plan: Plan) -> frozenset[str]:
    """The keys of those whose saved file is weighed: each variant with a promise about it, and what that promise is
    judged against."""
    asked = [(variant, promise) for variant in plan.variants for promise in variant.promises]
    both = [(variant.key, promise.against or plan.baseline) for variant, promise in asked if _of_file(promise)]
    return frozenset(key for pair in both for key in pair)


def _of_file(promise: Promise) -> bool:
    return promise.metric == "saved_bytes"

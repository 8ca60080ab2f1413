"""From a choice to a plan, purely: stacks, checks, what fits, what is left out and why, what it will roughly take.

Nothing here reads a file, starts a process or imports a heavy library.
"""

from optimizers.planning.checks import check, given_texts
from optimizers.planning.fitting import judged
from optimizers.planning.models import Another
from optimizers.planning.plans import gigabytes, memory_limit, plan
from optimizers.planning.presets import Preset, preset
from optimizers.planning.stacks import AS_STORED, PLAIN_BASELINE, key_of, known, parse_stack, read_stack
from optimizers.planning.threads import counted as thread_counts
from optimizers.planning.threads import swept
from optimizers.planning.ways import ladder

__all__ = [
    "AS_STORED",
    "PLAIN_BASELINE",
    "Another",
    "Preset",
    "check",
    "gigabytes",
    "given_texts",
    "judged",
    "key_of",
    "known",
    "ladder",
    "memory_limit",
    "parse_stack",
    "plan",
    "preset",
    "read_stack",
    "swept",
    "thread_counts",
]

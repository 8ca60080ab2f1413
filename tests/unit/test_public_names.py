"""The three public names, in whatever order they and the folder of techniques are imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
USE = "assert [r.id for r in techniques().techniques] and compare.__name__ == 'compare' and plan.__name__ == 'plan'"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import optimizers.techniques",
        "import optimizers.techniques.bf16 as b; assert b.TECHNIQUE.id == 'bf16'",
        "from optimizers.techniques import all_techniques; assert all_techniques()",
        "from optimizers import api; api.techniques()",
    ],
)
def test_the_public_names_are_there_before_and_after_other_imports(before: str) -> None:
    lines = [before, "from optimizers import compare, plan, techniques", USE, before]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ROOT, check=True, timeout=240)

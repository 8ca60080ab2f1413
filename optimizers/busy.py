"""Requests that are answered while another program keeps one processor core busy, as on a shared machine.

Covers how many there are and how their samples are told from the ordinary ones. What keeps the core busy is
`runners/busy_core.py`, who answers is `manager/hosted.py`'s business, what it says is `analysis/hosted.py`'s.
"""

from __future__ import annotations

from typing import Literal

Load = Literal["none", "one_busy_core"]

LOADED_ROUNDS = 5
LEADERS = 3

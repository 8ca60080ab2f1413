"""Serves the real page over the scripted api: `python serve_scripted.py PORT [--hostile] [--seconds S] [--stills]`,
with the repository, this folder and the one above it on PYTHONPATH."""

from __future__ import annotations

import argparse

from scripted_votes import VotingScript

from optimizers import api
from optimizers.settings import settings
from optimizers.ui import build, launch

FUNCTIONS = (
    "techniques models default_model prepare choose named_in plan start watch stop runs load running keep delete "
    "votable vote"
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--stills", action="store_true")
    asked = parser.parse_args()
    script = VotingScript(asked.hostile, asked.seconds, asked.stills)
    for name in FUNCTIONS.split():
        setattr(api, name, getattr(script, name))
    launch(build(), settings({"LEVERS_PORT": asked.port}))


main()

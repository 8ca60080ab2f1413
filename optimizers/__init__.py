"""Levers: what every inference optimization gives and what it costs, side by side, on your own machine."""

"""Levers against its peers, in turn with them: who measures faster and nearer to the truth, and who decodes faster.

    python tests/benchmarks/peers.py optimum-benchmark PEER/bin/python [--tokens 64]
    python tests/benchmarks/peers.py llama.cpp FILE.gguf [--pairs 9]

What each needs, does and prints is said in its file: against_optimum_benchmark.py, against_llama_cpp.py.
"""

from __future__ import annotations

import sys

import against_llama_cpp
import against_optimum_benchmark

PEERS = {"optimum-benchmark": against_optimum_benchmark.main, "llama.cpp": against_llama_cpp.main}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in PEERS:
        raise SystemExit(f"Name a peer: {', '.join(PEERS)}. See {sys.argv[0]}.")
    PEERS[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()

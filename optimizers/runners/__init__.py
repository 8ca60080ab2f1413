"""Where a worker runs. `subprocess.py`: a process of its own on this machine."""

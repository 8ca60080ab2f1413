"""The worker: `python -m optimizers.worker` loads one variant and measures it. The only room that imports torch.

Nothing here is imported by other rooms; they speak to it through `protocol.py`.
"""

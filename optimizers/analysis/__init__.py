"""Pure analysis: a run's log becomes a record (`fold`), a record becomes the finished comparison (`compare`).

Knows only the schema, the results and the protocol; does no input or output.
"""

from optimizers.analysis.comparison import compare
from optimizers.analysis.fold import Folding, fold

__all__ = ["Folding", "compare", "fold"]

"""What a reader takes away from a finished run: the code recipe of a measured variant. Pure.

recipe.py     puts a script together from what the variant's techniques declare
weights.py    where the weights come from, as code
head.py       the comment above it: what was measured, and what to install
text.py       text from outside as literals and comments, which can never become code
"""

from optimizers.takeaway.recipe import recipe

__all__ = ["recipe"]

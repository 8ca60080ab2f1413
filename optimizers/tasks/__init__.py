"""The kinds of work that are measured, one file each. Pure: what is asked is here, how it runs is the worker's."""

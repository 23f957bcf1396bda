"""What a run needs before it begins, and several runs of one configuration.

In: a configuration, and a card by name; the dataset's lengths if it is here. Out: a plan (memory,
disk, steps, hours, hints) and what would stop the run on this machine; downloads; a sweep's runs.
Read ``plan`` first; ``memory`` is a formula.
"""

"""What a run needs before it begins, and several runs of one configuration.

In: a configuration, and a card by name; the dataset's lengths if it is here. Out: a plan (memory,
disk, steps, hours, hints), downloads, a doctor's findings, the runs of a sweep. Read
``plan.make_plan`` first; ``memory`` is a formula, ``show`` prints, ``doctor`` asks all of them.
"""

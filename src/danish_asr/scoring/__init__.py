"""Predictions -> rates per group, intervals, comparisons, error analysis.

In: predictions files, DataFrames or rows. Out: frozen results that `report` shows. Read
``scores.py`` first: one DataFrame of scored rows, from which every number comes, and its groups.
Then ``intervals.py`` and ``gap.py`` (speakers), ``compare.py`` (runs), ``errors.py``.
"""

"""From predictions to error rates per group, with intervals over speakers.

In: a predictions file (`predictions`) and `Settings`, which has the row filters. Out: `Scores` of
one file, a `Comparison` of several runs, or an `ErrorAnalysis`; the room ``report`` writes them.
Rows become integer counts (`scored_rows`), counts become sums per group and speaker, sums become
rates with intervals (`intervals`), gaps between groups (`gaps`) and differences of runs (`paired`).
Read `scores` first, then `scored_rows`.
"""

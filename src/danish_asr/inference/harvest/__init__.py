"""From long recordings with loose text, or with none, to a dataset.

In: recordings, texts beside them, one or two models. Out: tables of utterances, a list of what was
left out with the reasons, and the dataset that `danish_asr.corpus` converts from the tables.
Read command.py first. matching.py finds the text of a piece of speech, recording.py runs the
models over a recording, selection.py applies the thresholds,
kept.py writes what is kept.
"""

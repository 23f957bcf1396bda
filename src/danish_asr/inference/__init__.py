"""From audio of any length to text with times.

In: a model (a run, a checkpoint, a name) and recordings: files, bytes, arrays. Out: transcripts,
as objects or as files (text, subtitles, JSON, CSV, TextGrid), and models for other programs.
Read model.py first: it loads a model and shows the way from samples to words; windows.py cuts
speech. transcribe.py, harvest.py, export.py, serve.py and tune.py are the commands.
"""

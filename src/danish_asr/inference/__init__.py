"""From audio of any length to text with times.

In: a model (a run, a checkpoint, a name) and recordings: files, bytes, arrays. Out: transcripts,
as objects or as files (text, subtitles, JSON, CSV, TextGrid), and models for other programs.
Read model.py first: it loads a model. streaming.py then shows the way from samples to segments.
transcribe.py and align.py are the commands; `export` and `serve` have folders of their own.
"""

"""A run's output directory, without PyTorch: its files come in, scores and advice go out.

``run_directory.py`` names the files and reads checkpoints, scores and metrics; read it first.
``continuing.py`` guards a start, so that nothing of another run is overwritten; ``advice.py`` says
in words what the metrics show.
"""

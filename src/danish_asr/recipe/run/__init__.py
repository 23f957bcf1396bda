"""A run's output directory, without PyTorch: its files, how it continues, what it is told."""

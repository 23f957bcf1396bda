"""A run's output directory, without PyTorch: what it means, how it continues, what it is told."""

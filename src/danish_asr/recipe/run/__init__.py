"""A run's output directory, read and kept in order without PyTorch."""

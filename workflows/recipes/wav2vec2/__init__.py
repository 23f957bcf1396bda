"""A regular package, see `workflows`."""

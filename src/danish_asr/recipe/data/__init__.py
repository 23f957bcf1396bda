"""From a built dataset to batches: index, seeded plan, decoding, exact resume."""

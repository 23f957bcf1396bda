"""N-gram language models for decoding: building, and choosing the weights."""

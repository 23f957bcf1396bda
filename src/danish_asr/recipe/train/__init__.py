"""Train: the recipe on fairseq2's trainer, its checks, and what it logs and keeps."""

"""Train a CTC model with fairseq2's trainer; read ``training.py`` first."""

"""From a built dataset to batches.

In: the shards of a split and the sections of ``dataset``. Out: a reader of ``Seq2SeqBatch``, the
same batches for the same seed, that continues at any batch on any number of processes. Read
`reader.py` first; then `index.py`, `targets.py` and `sampler.py` (which rows are in which batch).
"""

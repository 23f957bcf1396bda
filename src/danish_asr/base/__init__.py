"""What every room stands on; it imports no other room.

Errors and exit statuses, the schema of datasets, atomic files, tables, locks, processes, progress,
audio, the code of users, and what batch systems and native libraries need.
Read first: ``errors.py`` and ``schema.py``, which is the contract of ``data/README.md`` as code.
"""

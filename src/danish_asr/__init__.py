"""Fine-tune omniASR CTC models on Danish speech and report error rates per dialect.

Importing this package is cheap: neither torch nor fairseq2 is imported before it is needed.
"""

__version__ = "0.1.0"

"""The evaluation recipe: every row of a split, once, into ``predictions.jsonl``."""

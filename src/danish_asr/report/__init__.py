"""From predictions to what people read: a table, a page, JSON, CSV and Markdown."""

from __future__ import annotations

from danish_asr.report.score_file import score_file

__all__ = ["score_file"]

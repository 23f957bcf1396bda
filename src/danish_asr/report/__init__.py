"""From predictions to reports: a table, a page, JSON, CSV and Markdown."""

from danish_asr.report.files import compare_files, score_file

__all__ = ["compare_files", "score_file"]

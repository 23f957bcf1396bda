"""From predictions to reports: a table, a page, JSON, CSV and Markdown."""

from danish_asr.report.comparison_tables import parse_runs
from danish_asr.report.exports import Exports
from danish_asr.report.files import compare_files, score_file

__all__ = ["Exports", "compare_files", "parse_runs", "score_file"]

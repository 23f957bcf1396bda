"""From predictions to scores: counts per group, intervals over speakers, comparison, analysis."""

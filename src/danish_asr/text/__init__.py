"""Text normalisation: profiles, numerals and number words."""

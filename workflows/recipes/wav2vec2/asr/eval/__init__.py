"""Entry points of the evaluation recipe under upstream's module names."""

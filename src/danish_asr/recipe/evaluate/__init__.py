"""The evaluation recipe: scores a split, and writes its predictions."""

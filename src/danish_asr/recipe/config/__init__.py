"""The configuration of the recipes: sections, keys, defaults, and how it is read."""

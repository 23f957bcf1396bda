"""What a run needs, before it begins: memory, disk, weights; and what makes it fit."""

"""``danish-asr sweep``: a grid of runs, of which the bad ones stop early."""

"""What `danish-asr verify` checks, one kind of thing per file."""

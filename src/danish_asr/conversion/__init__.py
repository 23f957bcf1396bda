"""From a source to shards: units of work, the processes that do them, what they leave."""

"""Which model a name or a path means, and what is known of it before it is built."""

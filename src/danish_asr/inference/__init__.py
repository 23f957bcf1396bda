"""From audio of any length to text with times."""

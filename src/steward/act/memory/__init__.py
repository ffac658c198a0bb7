"""What moves of a process's memory were worth."""

"""What runs on a machine with a real GPU: known work, a sampling process, recordings."""

"""Pages of processes: where they are, which were written or referenced, and moving them."""

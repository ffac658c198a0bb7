"""What is known of followed jobs in one moment: where they are, when they end, where else to go."""

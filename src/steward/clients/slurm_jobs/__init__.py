"""Jobs that a user submits to Slurm, watches and changes, with the rights that they have there."""

"""Jobs that a user submits to Kubernetes, watches and changes, with the rights that they have."""

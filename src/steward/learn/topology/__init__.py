"""Graph models of the fabric: what sharing links costs jobs."""

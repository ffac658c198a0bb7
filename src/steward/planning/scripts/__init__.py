"""Scripts that are ready to run, for each choice of a plan: Slurm, Kubernetes, a machine of its own.

Belongs here: text of scripts and manifests, every value of a user quoted. Does not: submitting.
"""

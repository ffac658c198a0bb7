"""Scripts that are ready to run, one for each choice of a plan: Slurm, Kubernetes, a shell.

Belongs here: text of scripts and manifests, every value of a user quoted. Does not: submitting.
"""

"""Animal ecology from edge to cloud to HPC: `make example-ecology`; README.md says what it shows.

Belongs here: the world that the example makes (animals, scenes, arrivals), the edge device, the
labelling queue, the retraining as a job of steward, and the page. Does not: anything that another
use of steward would need.
"""

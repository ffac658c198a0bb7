"""A fabric that is not there: flows that share links, jobs that compute and send in turn."""

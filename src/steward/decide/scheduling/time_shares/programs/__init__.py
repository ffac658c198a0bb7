"""Linear and convex programs over time shares, and who solves them. No policy lives here."""

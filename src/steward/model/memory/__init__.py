"""The words of the memory domain: tiers, pages, one moment of them, and what may be moved."""

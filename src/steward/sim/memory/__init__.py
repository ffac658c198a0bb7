"""Programs whose pages lie in several tiers of memory, behind a link that others use, too."""

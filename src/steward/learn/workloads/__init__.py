"""Kinds of work, phases inside it, and behaviours that are new."""

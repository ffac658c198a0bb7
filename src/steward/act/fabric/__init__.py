"""Carries out what was decided about traffic: with the kernel's traffic control."""

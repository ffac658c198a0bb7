"""Carries out decisions about followed jobs, and measures what moves were worth."""

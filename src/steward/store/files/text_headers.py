"""The header line of delimited text: what separates its fields, and the names in it."""

from __future__ import annotations

import csv

__all__ = ["delimiter_of", "fields_of"]


def delimiter_of(header: str) -> str:
    """Return what separates the fields; a blank stands for any run of blanks."""
    counts = {each: header.count(each) for each in (",", "\t", ";", "|")}
    best = max(counts, key=lambda each: counts[each])
    return best if counts[best] else " "


def fields_of(header: str) -> list[str]:
    """Return the names in a header line."""
    delimiter = delimiter_of(header)
    line = header.lstrip("#\ufeff").strip()
    if delimiter == " ":
        fields = line.split()
    elif '"' in line:  # a delimiter between quotes is none
        fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    else:
        fields = line.split(delimiter)
    return [field.strip().strip("\"'") for field in fields]

"""One file per family of engines: lines that must agree with what peers gave."""

"""Values of planning: what sites offer (catalog), what is asked, and which ways there are to run it."""

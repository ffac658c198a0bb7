"""Values of planning: what sites offer, what is asked, and the ways there are to run it."""

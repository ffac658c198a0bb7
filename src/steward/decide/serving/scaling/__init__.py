"""How many instances of which model there are. One file each."""

"""How often pages are going to be accessed, and what moving them earns."""

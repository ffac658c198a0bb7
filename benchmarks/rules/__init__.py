"""What the benchmark of rules is made of: a long log of real lines, many rules, a measured run."""

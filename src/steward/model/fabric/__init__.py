"""The words of the fabric domain: topologies, routes, and one moment of links and applications."""

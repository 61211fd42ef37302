"""Linear systems, factorizations and eigenvalues."""

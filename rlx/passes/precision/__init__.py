"""Which ops compute in 16 bits."""

"""Small, complete programs; each is run by the tests."""

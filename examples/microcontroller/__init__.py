"""A network on a microcontroller, run in an emulator."""

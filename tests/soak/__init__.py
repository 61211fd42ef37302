"""Long runs of what goes wrong rarely: threads, forks, interrupts, killed processes, memory."""

"""What makes a graph ready for planning and lowering."""

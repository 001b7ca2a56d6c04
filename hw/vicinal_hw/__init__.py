"""What touches metal, and the virtual twin of each piece of metal."""

"""What `vicinal scope` does: reading, drawing and explaining the file of a deployment."""

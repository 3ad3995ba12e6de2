"""Code that both SQL stores use."""

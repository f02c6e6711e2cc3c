"""What launched what, how late, and from which line."""

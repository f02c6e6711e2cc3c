"""What the terminal is asked, sent and left with."""

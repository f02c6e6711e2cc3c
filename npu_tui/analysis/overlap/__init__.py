"""Computing, communication and free time, as a whole and by step."""

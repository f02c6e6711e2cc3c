"""The parts that a report is made of."""

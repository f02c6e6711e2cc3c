"""The overview of a job: who is slow, where, on which clock; from here a rank's timeline is entered."""

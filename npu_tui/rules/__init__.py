"""What is wrong with a job, proved by places of the trace: one small rule per finding."""

"""What is said of profiles, jobs and comparisons: documents, and one writer for each format."""

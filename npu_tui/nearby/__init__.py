"""The profiles below a folder: which there are, and what each says."""

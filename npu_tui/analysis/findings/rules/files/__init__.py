"""Rules that read the files beside a trace: kernels, memory, transfers, preprocessing."""

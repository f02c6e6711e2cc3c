"""Rules about the device: kernels, copies, collectives."""

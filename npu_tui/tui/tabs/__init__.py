"""The tabs of the panel: what each shows."""

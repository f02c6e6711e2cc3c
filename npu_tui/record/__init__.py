"""The switch of a running job: what records a profile, and what analyses it afterwards."""

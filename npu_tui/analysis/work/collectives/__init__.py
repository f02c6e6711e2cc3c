"""Collectives: waiting, transfers, groups, links between ranks."""

"""The files beside a trace: tables, statistics and settings of the same profile."""

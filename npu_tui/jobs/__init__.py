"""All ranks of one job.

Definitions: reference of the Ascend profiler's ``communication.json`` for collectives, Duda's hull and difference
constraints for clocks, max-plus replay for what a rank costs the job.
"""

TABLE_FILES = ("tables", "part_tables")
"""The files that declare tables, in the order in which lists name them; a file that is not here comes last."""

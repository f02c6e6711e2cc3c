"""Pictures of a job: ranks over columns, hosts over devices, one collective on one clock; grids of cells."""

"""What each command of the registry does, one method by the command's id, in a module per group."""

"""The rules, each from facts to a draft of a finding."""

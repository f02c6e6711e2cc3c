"""The tools that coding agents call: one session keeps profiles open and gives bounded answers, verdict first.

``session`` opens profiles within the roots, ``tools`` are the questions, ``answers`` their size, ``server`` and
``guide`` the protocol.
"""

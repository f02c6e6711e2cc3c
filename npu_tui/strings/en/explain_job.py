"""What the findings about a whole job mean, and what to do about each."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "explain.job": "findings about a job of several ranks",
    "explain.job.needs": (
        "Needs: two ranks or more with communication.json, or with their traces. Clocks are compared as far as notifies, "
        "messages and common ends of collectives tie them."
    ),
    "explain.RANK.SLOW": (
        "One rank works longer before its collectives than the ranks with the same work (stage and place in the tensor "
        "group), and the others wait for it. Lateness that it inherited from others does not count. What the job would "
        "save is a replay of all collectives with this rank as fast as the median of its peers."
    ),
    "explain.RANK.SLOW.do": "Enter the rank and compare it with a peer: host late, data, clock frequency, other kernels.",
    "explain.RANK.STAGE": (
        "One stage of the pipeline computes longer than the others, all of its ranks alike, so the other stages wait."
    ),
    "explain.RANK.STAGE.do": "Move layers to the other stages, or split the first and last stage, which hold embedding and loss.",
    "explain.RANK.HOST": "All ranks of one host work longer than their peers on other hosts.",
    "explain.RANK.HOST.do": "Look at the host: other processes, CPU frequency, memory, storage, network cards.",
    "explain.RANK.WANDER": (
        "In every step another rank is slow by its own work. That is no slow device: the work or the pauses differ."
    ),
    "explain.RANK.WANDER.do": "Even out the data, sequence lengths or experts of the ranks; collect garbage on all ranks at the same step.",
    "explain.RANK.MISSING": "Ranks of the job have no files here; they are known only as far as others waited for them.",
    "explain.RANK.MISSING.do": "Copy the profiles of the missing ranks to the folder, those first that the others wait for.",
    "explain.RANK.CLOCK": (
        "No common clock: nothing that was recorded ties the rank to the others, or its clock drifts. Such ranks are "
        "drawn apart and never compared in time."
    ),
    "explain.RANK.CLOCK.do": "Profile at level 1 or above, which records notifies, and keep communication.json of all ranks.",
    "explain.LINK.SLOW": (
        "One link is slower than what its two ports reach with others, compared with links of the same transport, "
        "operation and size only: 3.5 robust standard deviations and less than 0.8 of the usual speed."
    ),
    "explain.LINK.SLOW.do": "Check cable, port and switch between the two; look for other traffic on the link.",
    "explain.LINK.PORT": "All links of one rank are slow in one direction, compared with links of the same kind.",
    "explain.LINK.PORT.do": "Check the network card or port of that rank.",
    "explain.GROUP.SIZES": "The ranks of a group did not make the same number of calls, so some are not compared.",
    "explain.GROUP.SIZES.do": "Profile the same steps on all ranks; a rank that calls more often runs other code.",
}

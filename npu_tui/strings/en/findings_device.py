"""The texts of findings about kernels, copies and collectives: titles, details, evidence."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "finding.straggler.title.one": (
        "Rank {ranks:and} is late and this rank waits {gain:time} of {total:time} for it ({share:share})"
    ),
    "finding.straggler.title.many": (
        "Ranks {ranks:and} are late and this rank waits {gain:time} of {total:time} for them ({share:share})"
    ),
    "finding.straggler.title.wandering": (
        "Another rank is late each time (ranks {ranks:and}) and this rank waits {gain:time} of "
        "{total:time} for them ({share:share})"
    ),
    "finding.straggler.title.ring": (
        "This rank waits {gain:time} of {total:time} ({share:share}) for its neighbour {ranks:and}; who is "
        "late is not visible from this rank"
    ),
    "finding.straggler.worst": (
        "At {name}, {others} there by {there:moment}; rank {rank} came {excess:time} later (a Notify_Wait of "
        "{wait:time})."
    ),
    "finding.straggler.case": "{name} ({excess:change})",
    "finding.straggler.each": "Waited for {rows:and}.",
    "finding.straggler.of_rank": "rank {rank} {time:time} in {count:collective|collectives}",
    "finding.straggler.ring": (
        "A RING shows only the ranks beside this one: any rank of it that is late makes them late as well."
    ),
    "finding.straggler.again": "Last again in {cases:and}.",
    "finding.straggler.fill": (
        "The first receive of each step waits for the pipeline to fill, {time:time} in all: that remains, and more "
        "micro-batches make its share smaller."
    ),
    "finding.straggler.transfers": (
        "After the last arrival the transfers take {time:time} {speed}, so bucket size, overlap and HCCL settings "
        "will not help."
    ),
    "finding.straggler.steps": "Seen in {seen} of {all:step|steps}.",
    "finding.straggler.on_disk": "The profile of rank {rank} is next to this one: open it.",
    "finding.straggler.not_on_disk": "Rank {rank} is not on disk.",
    "finding.straggler.place": "all others wait {excess:time} for rank {rank}; arrivals: {arrivals:list}",
    "finding.straggler.arrival": "r{rank} {after:change}",
    "finding.straggler.verdict.one": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting for rank {ranks:and} alone. The transfers "
        "themselves take {transfer:time}."
    ),
    "finding.straggler.verdict.many": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting for ranks {ranks:and}. The transfers "
        "themselves take {transfer:time}."
    ),
    "finding.straggler.verdict.wandering": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting, for another rank each time. The "
        "transfers themselves take {transfer:time}."
    ),
    "finding.straggler.verdict.ring": (
        "COMMUNICATION, not this rank: {gain:time} ({share:share}) is waiting for a rank that is not visible from "
        "this one. The transfers themselves take {transfer:time}."
    ),
    "finding.exposed.title": "{time:time} of exposed communication ({share:share})",
    "finding.exposed.detail": (
        "{count:collective|collectives}: {time:time} ({share:share}) of the device time is communication alone; "
        "computing hides {hidden:share} of all communication."
    ),
    "finding.exposed.more": "There is more communication ({communication:time}) than computing ({computing:time}).",
    "finding.exposed.late": (
        "{waited:time} of it is waiting for rank {ranks:and}: fix that first, overlap does not help against it."
    ),
    "finding.exposed.waited": "{waited:time} of it is waiting: these collectives take far longer than others of their size.",
    "finding.exposed.unknown": (
        "Without plane tasks (Level1 or above), waiting for a late rank cannot be told from transfers."
    ),
    "finding.exposed.place": "{time:time} of it exposed",
    "finding.exposed.verdict_rest": "COMMUNICATION: another {time:time} ({share:share}) is exposed.",
    "finding.exposed.verdict_waited": (
        "COMMUNICATION: {time:time} ({share:share}) is waiting for a rank that Level0 does not name."
    ),
    "finding.exposed.verdict": "COMMUNICATION: {time:time} ({share:share}) is exposed.",
    "finding.long.title": "{name} takes {time:time} ({share:share})",
    "finding.long.detail": "{name} takes {time:time}, {share:share} of the device time.",
    "finding.long.timing": (
        "On its master plane: waiting {wait:time}, moving data {transit:time} ({speed} over all planes), idle "
        "{idle:time}."
    ),
    "finding.long.not_bandwidth": "Bandwidth is not the problem: the transfer takes a tenth of the time or less.",
    "finding.long.peer": "Its longest wait is {wait:time}, for rank {rank}. What it saves counts every collective that waits for late ranks.",
    "finding.long.place": "{time:time}",
    "finding.link.title": "{first}",
    "finding.link.titles": "{count:thing slows|things slow} the hardware links down",
    "finding.link.sentence": "{text}.",
    "finding.link.unaligned": (
        "{count:collective moves|collectives move} data not aligned to {bytes} bytes ({share:share} of the "
        "transfer time)"
    ),
    "finding.link.small": "{share:share} of the {kind} packets are smaller than {most:g} MB",
    "finding.link.contention": (
        "{count:SDMA collective runs|SDMA collectives run} below {speed:g} GB/s during a matrix multiplication"
    ),
    "finding.link.again": "{count:collective spends|collectives spend} seconds in RDMA: packets are retransmitted",
    "finding.share.title": "{kind} take {share:share} of the compute time",
    "finding.share.part": "{kind} take {share:share} of the compute time (more than {most:percent}): {types:and}.",
    "finding.share.launched": "Asked for by {operations:and}.",
    "finding.share.lines": "Most come from {lines:and}.",
    "finding.share.cube": "Convolutions and matrix products",
    "finding.share.copy": "Format conversions and copies",
    "finding.share.layout": "Transposes and reshapes",
    "finding.share.softmax": "Softmax operators",
    "finding.dominant.title": "{name} takes {share:share} of the compute time",
    "finding.dominant.detail": (
        "{count:kernel|kernels} of type {name}: {time:time} in total ({share:share}), {average:time} on average, "
        "{longest:time} at most."
    ),
    "finding.dominant.place": "among the longest of its type",
    "finding.bound.cpu_title": "{count:kernel runs|kernels run} on the AI CPU: {time:time} of device time",
    "finding.bound.cpu": (
        "{count:kernel|kernels} of {least:limit} or more on the AI CPU, {time:time} in total: {names:and}."
    ),
    "finding.bound.dynamic_title": "All {count:count} kernels were compiled for dynamic shapes",
    "finding.bound.dynamic": (
        "None of {count:count} kernels has a static shape (kernel_details.csv, OP State), so no graph is compiled."
    ),
    "finding.bound.place": "runs on the AI CPU",
    "finding.outlier.title": "{count:call is an outlier|calls are outliers}, {name} first: {time:time} above the median",
    "finding.outlier.detail": "Among equal calls: {kernels:and}.",
    "finding.outlier.kernel": "{name} {count:count}×, up to {longest:time} where the median is {median:time}",
    "finding.outlier.place": "the median of this kernel is {median:time}",
    "finding.event.title": "Streams wait for events while the device is idle: {time:time} ({share:share})",
    "finding.event.detail": (
        "The host had launched in time, but streams wait for other streams for {share:share} of the device time. "
        "Most of it: {rows:and}."
    ),
    "finding.event.row": "{time:time} {what}",
    "finding.event.unknown": "for an unknown event",
    "finding.event.record": "for an event of {stream}",
    "finding.event.after": "for an event of {stream}, recorded after {name}",
    "finding.dtype.title": "{share:share} of the matrix work is in 32-bit floating point",
    "finding.dtype.detail": "{share:share} of {time:time} of matrix work reads FLOAT: {names:and}.",
    "finding.bandwidth.title": "{share:share} of the kernel time is spent reading memory",
    "finding.bandwidth.detail": (
        "Kernels of {time:time} ({share:share}) spend nearly all their time reading memory (MTE2): {names:and}."
    ),
    "finding.affinity.title": "Could use {api}{more}",
    "finding.affinity.more": ", and {count:count} more",
    "finding.affinity.api": "One call can replace each of these runs of operations: {runs:and}.",
    "finding.affinity.kernel": "One operator can replace each of these runs of kernels: {runs:and}.",
    "finding.affinity.run": "{words} {count:count}×, {time:time} on the device → {api}",
    "finding.affinity.lines": "Called from {lines:and}.",
    "finding.affinity.place": "could use {api}",
    "finding.copy.title": "Copies take {time:time} of device time ({share:share})",
    "finding.copy.detail": "{count:copy|copies}, {time:time} in total, {exposed:time} of it with no other work.",
    "finding.copy.blocking": "The host waits for {count:copy|copies} to end.",
    "finding.copy.moved": "By direction: {ways:and}.",
    "finding.copy.way": "{way} {size:memory} in {count:copy|copies} at {speed:.1f} GB/s",
    "finding.copy.place": "a copy between host and device",
    "finding.frequency.title": "The AI cores run {drop:share} below their full clock",
    "finding.frequency.detail": (
        "{count:count} of {all:kernel|kernels} ran at a lower clock, {drop:share} lower on average."
    ),
    "finding.frequency.place": "below the full clock",
}

"""The tables of the network cards: what nic.csv and roce.csv sampled, and the sums of each port."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from npu_tui.load.companion_schema import NIC, ROCE
from npu_tui.profile.columns import absolute
from npu_tui.profile.profile import Profile
from npu_tui.profile.table import MISSING, TableSheet, coded, columns, from_tuples, numbers, table
from npu_tui.trace.arrays import I64

if TYPE_CHECKING:
    import polars as pl

_RATES = (
    "receive_percent", "receive_errors", "receive_dropped", "send_percent", "send_errors", "send_dropped",
)  # fmt: skip
_OWN = {
    **columns("whole", "", "id", "port"),
    **columns("whole", "", "count", "samples"),
    **columns("real", "MB/s", "mean_count", "bandwidth mean_bandwidth most_bandwidth"),
    **columns("real", "%", "mean_count", " ".join((*_RATES, "received", "sent", "errors", "dropped"))),
}


def has_ports(profile: Profile) -> bool:
    """Whether nic.csv or roce.csv lies beside the trace."""
    return any(profile.tables.has(schema.stem) for schema in (NIC, ROCE))


def _frames(profile: Profile) -> list[tuple[str, pl.DataFrame]]:
    """The samples of each kind of card that have a time, by time."""
    tables = profile.tables
    return [
        (schema.stem, tables.table(schema.stem).frame.drop_nulls(["time"]).sort("time", maintain_order=True))
        for schema in (NIC, ROCE)
        if tables.has(schema.stem)
    ]


def network(profile: Profile) -> TableSheet:
    """Every sample of the network cards."""
    frames = _frames(profile)
    if not frames:
        return from_tuples((), "transport device port start start_ns bandwidth " + " ".join(_RATES), _OWN)
    which = np.repeat(np.arange(len(frames)), [len(frame) for _, frame in frames])

    def whole(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.concatenate([frame[name].fill_null(MISSING).to_numpy().astype(np.int64) for _, frame in frames])

    def real(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.concatenate([frame[name].fill_null(np.nan).to_numpy().astype(np.float64) for _, frame in frames])

    time = whole("time") - profile.tables.start_ns
    return TableSheet(
        len(time),
        {
            "transport": coded([name for name, _ in frames], which),
            "device": numbers(whole("device"), MISSING),
            "port": numbers(whole("function"), MISSING),
            "start": numbers(time),
            "start_ns": absolute(profile, time),
            **{name: numbers(real(name)) for name in ("bandwidth", *_RATES)},
        },
    )


def port_samples(profile: Profile) -> Iterator[tuple[str, int | None, int | None, I64, I64]]:
    """Of each port its card, device and number, when it was sampled, ns since the trace's start, and bytes/s then."""
    for name, frame in _frames(profile):
        for (device, port), samples in frame.drop_nulls(["bandwidth"]).group_by(
            ["device", "function"], maintain_order=True
        ):
            time = samples["time"].to_numpy().astype(np.int64) - profile.tables.start_ns
            yield name, device, port, time, np.rint(samples["bandwidth"].to_numpy() * 1e6).astype(np.int64)


NETWORK = table(
    "network",
    network,
    sql="rank transport device port start start_ns bandwidth receive_percent receive_errors receive_dropped "
    "send_percent send_errors send_dropped",
    own=_OWN,
)


def ports(profile: Profile) -> TableSheet:
    """What each port of the network cards carried, the shares of the bandwidth that came and went, the worst rates."""
    rows = []
    for name, frame in _frames(profile):
        for (device, port), samples in frame.group_by(["device", "function"], maintain_order=True):
            bandwidth = samples["bandwidth"].drop_nulls()
            if not len(bandwidth):
                continue
            worst = [
                max((top for column in columns if (top := samples[column].max()) is not None), default=None)
                for columns in (("receive_errors", "send_errors"), ("receive_dropped", "send_dropped"))
            ]
            shares = samples["receive_percent"].mean(), samples["send_percent"].mean()
            rows.append((name, device, port, len(bandwidth), bandwidth.mean(), bandwidth.max(), *shares, *worst))
    names = "transport device port samples mean_bandwidth most_bandwidth received sent errors dropped"
    return from_tuples(rows, names, _OWN)


PORTS = table(
    "ports",
    ports,
    json="transport device? port? samples mean_mb_s=mean_bandwidth max_mb_s=most_bandwidth received_percent=received? "
    "sent_percent=sent? errors_percent=errors? dropped_percent=dropped?",
    page="transport device port mean=mean_bandwidth most=most_bandwidth received sent errors dropped",
    panel="transport device port mean=mean_bandwidth most=most_bandwidth received sent errors dropped",
    section="ports",
    tab=True,
    row="PortRow",
    about="""What a port of a network card carried by nic.csv or roce.csv.

    Shares of the bandwidth that were received and sent are means, errors and dropped packets at their worst.
    """,
    own=_OWN,
)

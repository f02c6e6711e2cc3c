"""What collectives moved over every transport, as communication.json has it, and preprocessing of data."""

from __future__ import annotations

from msgspec import Struct


class Transfer(Struct, frozen=True):
    """What one collective moved over one ``transport`` (SDMA, RDMA, HCCS, PCIE, SIO).

    ``item`` is its slice, -1 without one; ``start`` and ``end`` are those of the collective in ns; ``size`` in bytes
    took ``time`` ns; ``packets`` are (bytes of one, how many).
    """

    name: str
    item: int
    start: int
    end: int
    transport: str
    size: float
    time: int
    large_ratio: float | None
    packets: tuple[tuple[float, int], ...]

    @property
    def speed(self) -> float | None:
        """GB/s, None where nothing took time."""
        return self.size / self.time if self.time > 0 else None


class Preprocessing(Struct, frozen=True):
    """One row of data_preprocess.csv: the node ``name``, its ``start`` (None: not told) and ``total`` in ns."""

    name: str
    start: int | None
    total: int

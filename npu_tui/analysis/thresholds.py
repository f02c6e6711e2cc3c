"""From where on something is worth a finding: every number a rule compares with, each one a setting of the user."""

from __future__ import annotations

from msgspec import Struct


class Thresholds(Struct, frozen=True):
    """Shares are of 1, times in the unit of the name's ending.

    What each one gates and where its default comes from is the text ``threshold.<name>`` of ``npu_tui.strings``.
    """

    near_vertical_us: float = 30.0
    starved_us: float = 10.0
    severity_medium: float = 0.03
    severity_high: float = 0.05
    free_share: float = 0.10
    free_share_high: float = 0.20
    late_share: float = 0.50
    links_fewest: int = 20
    starved_fewest: int = 5
    vertical_share: float = 0.30
    cluster_ms: float = 1.0
    cluster_idle: float = 0.50
    cluster_idle_high: float = 0.10
    stage_share: float = 0.03
    drain_share: float = 0.03
    interruptions_fewest: int = 3
    sync_share: float = 0.01
    sync_unproven: float = 0.10
    sync_blocking: float = 0.50
    sync_long_us: float = 100.0
    compile_calls: int = 20
    compile_share: float = 0.03
    small_kernel_us: float = 20.0
    small_kernel_share: float = 0.50
    small_kernel_gap: float = 0.03
    step_start_share: float = 0.05
    step_start_share_high: float = 0.10
    exposed_share: float = 0.10
    exposed_share_high: float = 0.30
    late_peer_share: float = 0.50
    long_op_factor: float = 5.0
    long_op_share: float = 0.20
    straggler_share: float = 0.50
    straggler_ms: float = 1.0
    small_packet_share: float = 0.20
    small_packet_sdma_mb: float = 16.0
    small_packet_rdma_mb: float = 1.0
    contention_gb_s: float = 14.4
    alignment_bytes: int = 512
    retransmission_ms: float = 4000.0
    utilization_fine: float = 0.80
    utilization_poor: float = 0.50
    compute_hidden: float = 0.20
    share_cube: float = 0.60
    share_copy: float = 0.30
    share_layout: float = 0.20
    share_softmax: float = 0.15
    dominant_share: float = 0.30
    dominant_share_high: float = 0.50
    affinity_share: float = 0.01
    outlier_factor: float = 3.0
    outlier_share: float = 0.01
    pause_ms: float = 5.0
    pause_share: float = 0.50
    float_share: float = 0.50
    ai_cpu_us: float = 20.0
    mte2_cube: float = 0.95
    mte2_vector: float = 0.70
    mte2_share: float = 0.10
    frequency_drop: float = 0.05
    loader_ms: float = 10.0
    loader_least_ms: float = 1.0
    loader_free_share: float = 0.01
    copy_share: float = 0.05
    copy_share_high: float = 0.20
    allocation_ms: float = 10.0
    pressure_gb: float = 16.0
    fragmentation: float = 1.30
    memory_full: float = 0.90
    growth_mb: float = 20.0
    growth_fewest: int = 3
    leak_mb: float = 1.0
    leak_steps: int = 4
    block_dim_us: float = 20.0
    block_dim_share: float = 0.10
    cube_cores: int = 0
    vector_cores: int = 0
    mac_bound: float = 0.80
    vec_bound: float = 0.75
    pipe_share: float = 0.10
    l2_hit: float = 0.50
    l2_share: float = 0.20
    peak_tflops: float = 0.0
    format_share: float = 0.05
    vector_mb: float = 4.0
    vector_slow: float = 0.25
    vector_share: float = 0.03
    memory_gb_s: float = 0.0
    rdma_gb_s: float = 10.0
    slow_share: float = 0.20
    preprocess_ms: float = 10.0
    gc_ms: float = 1.0
    gc_suspect_ms: float = 200.0
    profiler_gap_low_us: float = 80.0
    profiler_gap_high_us: float = 115.0
    profiler_share: float = 0.03
